package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/kubelet/config"
	"porthole.dev/porthole/kubelet/factlog"
	"porthole.dev/porthole/kubelet/meter"
	"porthole.dev/porthole/kubelet/volume"
)

// makeVolumes makes the manager of the pods' volumes.
func (p *parts) makeVolumes(context.Context) error {
	p.volumes = volume.New(p.volumeOptions())
	p.meter.CountVolumes(func() meter.Count { return p.volumes.Count() },
		func() meter.Count { return p.volumes.Certificates() })
	return nil
}

// volumeOptions returns what volumes need. Without a cluster they have neither objects nor tokens.
func (p *parts) volumeOptions() volume.Options {
	event := p.api.PodEvent
	options := volume.Options{RootDir: p.host.root, NodeName: p.host.name, BootID: p.host.BootID,
		NodeChanged: p.report, Measure: p.meter.VolumeOperation,
		Event:  func(of *v1.Pod, kind, reason, message string) { event(of, "", kind, reason, message) },
		Failed: func(of *v1.Pod, err error) { event(of, "", v1.EventTypeWarning, "FailedMount", err.Error()) }}
	client := p.api.client
	if client == nil {
		return options
	}

	options.Objects = client.Objects
	options.Tokens = client
	options.Claims = client
	options.Drivers = p.plugins.drivers
	if config.On(p.cfg.FeatureGates, "ClusterTrustBundleProjection") {
		options.TrustBundles = client.Objects
	}
	if config.On(p.cfg.FeatureGates, "PodCertificateRequest") {
		options.Certificates = client
	}
	return options
}

// recordFacts has what is learned about pods written down in a folder, if one is given.
func (p *parts) recordFacts(context.Context) (err error) {
	if p.given.RecordFacts != "" {
		p.facts, err = factlog.Open(p.given.RecordFacts, factlog.DefaultLimits)
	}
	return err
}
