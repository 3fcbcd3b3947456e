// Package lifecycle holds the tests of `porthole up` and `porthole down` themselves: interrupted, repeated, and what
// they leave on the machine.
package lifecycle
