// Package layering holds the tests that keep the folders apart: who may import whom, and that every package says what
// it is for. The rules and their reasons are in rules.go.
package layering
