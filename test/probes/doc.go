// Package probes holds one program for each probe of check/probe, and tests that play the probes against emulated
// hosts.
package probes
