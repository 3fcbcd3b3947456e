// Package hostroutes brings the routes of a Windows host through the creation of an HNS network. When HNS binds the
// first network to a network card, a virtual switch takes the card over: its addresses move to another adapter, the
// link is down for seconds, and the routes of the card are lost (docs/windows-facts.md, "Networks and routes"). The
// same happens when the last such network is deleted.
//
//	Save ─▶ file ─▶ HNS creates or deletes a network ─▶ the addresses are on another adapter ─▶ missing routes are added there
//
// The routes are in a file before anything changes, so a process that is killed in between finds them when it starts
// again, also without the API server, whose route may be among them. The plan is pure.
package hostroutes
