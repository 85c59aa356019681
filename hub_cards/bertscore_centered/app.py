"""The page of the Space."""

from twmd_registry.demo.page import build_page

build_page("bertscore_centered").launch()
