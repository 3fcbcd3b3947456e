// Package controller keeps OVN's northbound database as the cluster wants it. One runs for the whole cluster, beside
// the control plane; a second one waits until the first has ended, by a lock of the database.
//
//	API server ──▶ facts (facts.go) ──▶ nb.Want ──▶ nb.MakePlan ──one transaction──▶ northbound database ──▶ ovn-northd
//	     ▲                                                 │
//	     └── annotation "ovn" of each pod, events ─────────┴── chassis of deleted nodes ──▶ southbound database
//
// While a database or the API server is away nothing is changed: unknown is not absent. OVN goes on with what it has.
package controller
