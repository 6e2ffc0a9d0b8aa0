"""A fit as one page of HTML that needs no network: what is in it, and how it is written."""

from scorevi.results.page.writing import check_page, write_page

__all__ = ["check_page", "write_page"]
