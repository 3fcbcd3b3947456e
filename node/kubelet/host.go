package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"
	v1beta1 "k8s.io/kubelet/config/v1beta1"

	"porthole.dev/porthole/internal/bootrecord"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/meter"
)

// takeLock waits for the lock file, if one is given.
func takeLock(ctx context.Context, given *Options, leave func()) error {
	switch {
	case given.LockFile == "" && given.LeaveOnContention:
		return errors.New("cannot exit on lock file contention: no lock file specified") // upstream's words
	case given.LockFile == "":
		return nil
	case !given.LeaveOnContention:
		leave = nil
	}
	return lockFile(ctx, given.LockFile, leave)
}

// readHost makes the kubelet's folders and reads what the machine is.
func (p *parts) readHost(context.Context) (err error) {
	if p.host.root, p.host.logs, err = folders(p.cfg, p.given); err != nil {
		return err
	}
	if p.host.Host, err = platform.ReadHost(p.host.root); err != nil {
		return err
	}
	p.host.name = strings.ToLower(strings.TrimSpace(cmp.Or(p.given.Hostname, p.host.Hostname)))
	if p.host.name == "" {
		return errors.New("empty hostname is invalid")
	}
	return nil
}

// beginFigures makes what counts.
func (p *parts) beginFigures(context.Context) error {
	usage, _ := platform.ReadUsage(p.host.root) // what cannot be read is zero
	p.meter = meter.New(meter.Options{NodeName: p.host.name, Boot: usage.Boot})
	return nil
}

// beginAddresses reads which addresses the node is given. The others are found while it is waited for them.
func (p *parts) beginAddresses(context.Context) (err error) {
	p.addresses, err = newNodeAddresses(p.given.NodeIP, p.host.name, thisHost())
	return err
}

// readResolver reads the node's own DNS settings for the first time.
func (p *parts) readResolver(context.Context) error {
	p.resolver = newHostResolver(*p.cfg.ResolverConfig, p.addresses.list)
	_, err := p.resolver.read()
	return err
}

// readMachine reads where processors and memory are, and what is reserved of them.
func (p *parts) readMachine(ctx context.Context) (err error) {
	if p.machine.Machine, err = readMachine(ctx, p.cfg, os.DirFS("/sys"), p.host.Host); err != nil {
		return err
	}
	if p.machine.kept, err = reserveCPUs(p.cfg, p.machine.Machine); err != nil {
		return err
	}
	p.machine.reserved, err = reserved(p.cfg, p.host.Host)
	return err
}

// openGate makes what pods wait for until the pod network of this boot is made.
func (p *parts) openGate(context.Context) (err error) {
	p.gate, err = bootrecord.NewGate(p.given.BootRecord, p.host.BootID)
	return err
}

// awaitNetwork lets pods start when the pod network of this boot is made.
func awaitNetwork(ctx context.Context, gate *bootrecord.Gate, made func()) {
	if why := gate.Why(); why != "" {
		klog.FromContext(ctx).Info("Pods wait", "cause", why)
	}
	if err := gate.Run(ctx, made); err != nil {
		klog.FromContext(ctx).Error(err, "Recording whether pods may start failed")
	}
}

// privileges returns an error if the process lacks a privilege that it needs. It also asks for a priority and for
// resources; not to get those resources is only logged.
func privileges(ctx context.Context, cfg *v1beta1.KubeletConfiguration, given *Options) error {
	if err := errors.Join(platform.CheckPrivileges(), platform.SetPriority(given.PriorityClass)); err != nil {
		return err
	}
	if err := platform.Claim(platform.Resources{OOMScore: int(*cfg.OOMScoreAdj),
		OpenFiles: uint64(cfg.MaxOpenFiles)}); err != nil {
		klog.FromContext(ctx).Info("The system does not give what the kubelet asks for", "cause", err.Error())
	}

	if cfg.ProtectKernelDefaults {
		if err := platform.CheckKernel(); err != nil {
			return fmt.Errorf(
				"%w (protectKernelDefaults is true: set them with sysctl, or set it to false, and the kubelet sets them)", err)
		}
		return nil
	}
	if !given.KeepKernel {
		if err := platform.SetKernel(); err != nil {
			klog.FromContext(ctx).Error(err, "The kernel does not take a setting")
		}
	}
	return nil
}

// shareMounts passes mounts below the kubelet's folder on. Without it pods with mount propagation have to wait. A start
// that is refused before leaves no mount.
func (p *parts) shareMounts(ctx context.Context) error {
	if err := platform.ShareMounts(p.host.root); err != nil {
		klog.FromContext(ctx).Error(err, "Mounts below the kubelet's folder are not passed on")
	}
	return nil
}

// private makes folders that only the kubelet and administrators may read, on a system where file modes do not say so.
func private(dirs ...string) error {
	if !platform.IsWindows {
		return nil
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
		if err := platform.Protect(dir); err != nil {
			return err
		}
	}
	return nil
}

// folders makes the kubelet's own folders and returns, as absolute paths, the one of its state and the one of the
// pods' logs.
func folders(cfg *v1beta1.KubeletConfiguration, given *Options) (root, logs string, err error) {
	root, err = filepath.Abs(given.RootDir)
	if err != nil {
		return "", "", fmt.Errorf("finding --root-dir %s: %w", given.RootDir, err)
	}
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", "", fmt.Errorf("creating --root-dir: %w", err)
	}

	logs, err = filepath.Abs(cfg.PodLogsDir)
	if err != nil {
		return "", "", fmt.Errorf("finding podLogsDir %s: %w", cfg.PodLogsDir, err)
	}
	return root, logs, private(logs, filepath.Join(filepath.Dir(logs), "containers"),
		filepath.Join(root, "checkpoints"), given.CertDir)
}
