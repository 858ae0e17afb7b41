"""Hypothesis strategies over the generated cases."""

from hypothesis import strategies as st

from oracle.cases import Case, some_case
from oracle.choosers import DrawnChooser


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Small recordings of clusters and decisions; shrunk cases have few nodes, cards, pods and annotations."""
    return some_case(DrawnChooser(draw))
