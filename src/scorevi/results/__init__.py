"""What a fit gives back: draws by name, files, tables, reports, pictures. No numerics."""
