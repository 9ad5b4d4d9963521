"""The page at `/`: static files of ours, which show the live views."""

from kestrelpy.http.page import route
from kestrelpy.http.page.standby import standby_page

ROUTES = route.router.routes

__all__ = ["ROUTES", "standby_page"]
