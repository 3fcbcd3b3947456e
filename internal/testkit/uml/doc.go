package uml
