package routes

import "github.com/prometheus/client_golang/prometheus"

// Described returns the metrics of an agent that has no routes: names, labels and texts, for the reference of metrics.
func Described() prometheus.Collector { return metrics(func() Status { return Status{} }) }
