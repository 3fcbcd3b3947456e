// Command conformance runs upstream's conformance suite against a local cluster: it builds the images that the tests
// name from free parts, pushes them to the cluster's registry, runs the suite with ginkgo, and writes down per special
// interest group what passed, what did not, and why.
//
//	programs (e2e/, bundle/, Debian) ─▶ images ─▶ registry of the cluster ◀─ containerd of each node
//	e2e.test ◀─ ginkgo, in the namespace of the outside world ─▶ API server, pods
//	   │ JSON report
//	   ▼
//	results-<node>.json ─┬─▶ docs/evidence/conformance.md
//	reasons.json ────────┘   a reason for each test that does not pass
package main
