// Package testkit helps tests that run the real thing: images made from one program, without any registry.
package testkit
