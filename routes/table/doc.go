// Package table is what all modes of the network between nodes share: the nodes, the routes that are wanted to their
// pod ranges, and the difference between those and the routes that a host has. It is pure.
//
//	nodes ──Peers──▶ wanted ──(the mode decides which can be)──▶ wanted ─┐
//	                                                                     ├─Diff─▶ plan: add what is missing or wrong, then
//	routes of the host ──────────────────────────────────────────────────┘        delete what is ours and not wanted
package table
