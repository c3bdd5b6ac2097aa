"""Everything around a model that upstream does differently, for those who ask for exactly that."""
