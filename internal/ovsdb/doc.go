// Package ovsdb speaks the Open vSwitch database protocol (RFC 7047) with the databases of Open vSwitch and OVN:
// transactions, monitored copies of tables, locks, and answers to the server's probes. It knows no schema.
//
//	Dial ─▶ Client ─Transact─▶ server
//	           └────Monitor──▶ Cache ◀─ updates ─ server
//
// The protocol is JSON, one message after the other. A library (ovn-kubernetes/libovsdb) would bring a validator, a
// metrics client and an RPC library into CNI plugins that are started for every pod, for four calls.
package ovsdb
