// Package facts reads what one machine says of its network, for `porthole path`: routes, neighbours, service rules,
// HNS. It changes nothing and needs none of our programs to run.
package facts
