// Package monitoring has what Prometheus and Grafana need for nodes with Porthole: alerts, jobs that read the metrics,
// and a dashboard. Its tests check them.
package monitoring
