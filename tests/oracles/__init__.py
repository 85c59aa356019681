"""Independent oracles: the method's formulas in plain numpy and scipy, one pair at a time. They never import the
package."""
