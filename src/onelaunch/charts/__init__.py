"""Data to pictures: matplotlib figures that know nothing of widgets or devices."""
