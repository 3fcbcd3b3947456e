// Package versions compares the table of versions in README.md with what is pinned, what can be emulated, and what is
// tested.
package versions
