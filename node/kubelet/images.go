package kubelet

import (
	"context"
	"errors"
	"path/filepath"

	"google.golang.org/grpc"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/kube"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/credential"
	"porthole.dev/porthole/kubelet/image"
)

// makeImages makes what pulls images, and what removes those that nobody uses.
func (p *parts) makeImages(context.Context) (err error) {
	pulls := puller(p.cfg, p.runtime.images)
	count := p.meter.Images()
	pulls.Count = count
	pulls.NodeConfigs = image.NodeConfigFolders(p.host.root)
	pulls.Builds = p.imageBuilds()
	if err := useProviders(pulls, p.given, p.api.client); err != nil {
		return err
	}
	pulls.Verify, err = image.NewVerifier(filepath.Join(p.host.root, "image_manager"),
		p.cfg.ImagePullCredentialsVerificationPolicy, p.cfg.PreloadedImagesVerificationAllowlist)
	if err != nil {
		return err
	}
	pulls.Verify.Checked = count.Checked
	p.meter.CountPulls(pulls.Verify.Kept)

	p.images = images{pulls, &image.GC{Images: pulls.Client(), Runtime: p.runtime.Client(), Disk: diskOf,
		Policy: gcPolicy(p.cfg), Verify: pulls.Verify, Removed: count.Removed, Event: p.api.NodeEvent}}
	return nil
}

// useProviders has the programs of the configuration asked for logins.
func useProviders(pulls *image.Puller, given *Options, client *kube.Kubelet) error {
	if given.CredentialConfig == "" && given.CredentialDir == "" {
		return nil
	}
	if given.CredentialConfig == "" || given.CredentialDir == "" {
		return errors.New(
			"--image-credential-provider-config and --image-credential-provider-bin-dir must be set together")
	}
	providers, err := credential.Load(given.CredentialConfig, given.CredentialDir)
	if err != nil {
		return err
	}
	providers.Matches = image.Matches
	providers.RegistryOf = image.RegistryOf
	if client != nil { // else the interface would not be nil
		providers.Accounts = client
	}
	pulls.Providers = providers
	return nil
}

// gcPolicy returns when unused images are removed.
func gcPolicy(cfg *v1beta1.KubeletConfiguration) image.GCPolicy {
	return image.GCPolicy{High: int(*cfg.ImageGCHighThresholdPercent), Low: int(*cfg.ImageGCLowThresholdPercent),
		MinAge: cfg.ImageMinimumGCAge.Duration, MaxAge: cfg.ImageMaximumGCAge.Duration}
}

// puller pulls images through a connection, within the limits on parallel pulls and on pulls per second in the
// configuration.
func puller(cfg *v1beta1.KubeletConfiguration, conn *grpc.ClientConn) *image.Puller {
	parallel := 0
	if cfg.SerializeImagePulls != nil && *cfg.SerializeImagePulls {
		parallel = 1
	}
	if cfg.MaxParallelImagePulls != nil {
		parallel = int(*cfg.MaxParallelImagePulls)
	}
	p := image.New(conn, parallel)
	if qps := *cfg.RegistryPullQPS; qps > 0 {
		p.Rate = kube.NewLimiter(float32(qps), int(cfg.RegistryBurst))
	}
	return p
}

// diskOf returns the size and the free space of the file system that holds path, in bytes.
func diskOf(path string) (capacity, available uint64, err error) {
	d, err := platform.ReadDisk(path)
	return d.DiskTotal, d.DiskAvailable, err
}
