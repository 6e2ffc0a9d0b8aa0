"""A fit as one page of HTML that needs no network: what is in it, and how it is written."""

from scorevi.results.page.writing import write_page

__all__ = ["write_page"]
