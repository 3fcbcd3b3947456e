// Package reference compares the pages of docs/reference, and those of docs/evidence that only list tests, with the
// code that they describe: commands and flags, fields of configuration files, metrics, events, conditions, exit codes.
// Its tests write them with -update:
//
//	tools/go test ./test/reference -update
package reference
