package service

import "time"

// State is what one Service asks of this node now; one without Frontends asks nothing (any more).
type State struct {
	Service   string // namespace/name
	Frontends []Frontend
	// HealthCheck is nil when the Service has no health check port.
	HealthCheck *HealthCheck
	Problems    []Problem
	// Triggered are the times (annotation endpoints.kubernetes.io/last-change-trigger-time) of the slices that changed
	// since the last Take.
	Triggered []time.Time
}

// HealthCheck is a port on which this node answers whether it has endpoints of a Service.
type HealthCheck struct {
	Service        string // namespace/name
	Port           uint16
	LocalEndpoints int
}
