# `make` lists the targets.
.DEFAULT_GOAL := help
