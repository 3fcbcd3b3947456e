package dataplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/dataplane/kernel"
	"porthole.dev/porthole/emulator/dataplane/render"
	"porthole.dev/porthole/emulator/dataplane/table"
	"porthole.dev/porthole/emulator/desired"
)

// Apply makes the kernel carry desired and returns the error of each object that it could not carry. Only what differs
// is written: a second Apply of the same writes nothing, and so does the first after a restart. An error of the whole
// means that the next Apply reads the kernel again.
func (d *DataPlane) Apply(ctx context.Context, desired desired.State) (map[string]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.applyAll(ctx, desired)
}

// applyAll does the work of Apply. The caller holds d.mu. It keeps in d.have what was written, so that it reads the
// kernel only at the start and after an operation whose effect is not known. The rules are one transaction: if it
// fails, no object is carried as wanted, and the error is that of the whole.
func (d *DataPlane) applyAll(ctx context.Context, desired desired.State) (map[string]error, error) {
	log := klog.FromContext(ctx)
	d.live = nil
	facts, err := d.links.Facts(d.uplink)
	if err != nil {
		return nil, err
	}
	rendered := render.All(desired, facts)
	want := rendered.State
	if !d.known {
		have, err := d.observe(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("reading the host's network: %w", err)
		}
		d.have, d.known = have, true
	}
	plan := kernel.Diff(want, d.have)
	if len(plan) > 0 {
		log.V(2).Info("Applying network plan", "operations", len(plan))
	}
	results := maps.Clone(want.Rejected)
	var failed error
	for _, op := range plan {
		log.V(4).Info("Applying network operation", "operation", op.String())
		err := d.carry(ctx, op, want)
		if err == nil {
			op.Record(&d.have, want)
			continue
		}

		err = fmt.Errorf("%s: %w", firstLine(op.String()), err)
		switch op.(type) {
		case kernel.Rules:
			d.known, failed = false, errors.Join(failed, err)
			continue
		case kernel.Del:
			d.known = false
		}
		results[op.Owner()] = errors.Join(results[op.Owner()], err)
	}
	if failed == nil && len(results) == 0 {
		d.live, d.have.Rules, d.have.Rules6 = rendered, want.Rules, want.Rules6
	}
	return results, failed
}

// Verify compares the kernel with desired and changes nothing. After a difference the next Apply reads the kernel.
func (d *DataPlane) Verify(ctx context.Context, desired desired.State) ([]kernel.Drift, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	facts, err := d.links.Facts(d.uplink)
	if err != nil {
		return nil, err
	}
	want := render.State(desired, facts)
	if d.live != nil {
		d.live.KeepChains(&want)
	}
	have, err := d.observe(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("reading the host's network: %w", err)
	}
	drift := kernel.Diff(want, have).Drift()
	if len(drift) > 0 {
		d.known, d.live = false, nil
	}
	return drift, nil
}

// observe reads what the kernel holds of ours.
func (d *DataPlane) observe(ctx context.Context, want kernel.State) (kernel.State, error) {
	have, err := d.links.Observe(ctx, want, d.have.Namespaces)
	if err != nil {
		return have, err
	}
	if have.Rules, err = d.nft.Ruleset(ctx, table.IPv4.Table, table.Name); err == nil {
		have.Rules6, err = d.nft.Ruleset(ctx, table.IPv6.Table, table.Name)
	}
	return have, err
}

// carry carries out an operation. want is the state that the plan leads to.
func (d *DataPlane) carry(ctx context.Context, op kernel.Op, want kernel.State) error {
	switch op := op.(type) {
	case kernel.Add:
		return d.links.Create(op.Resource)
	case kernel.Set:
		return d.links.Create(op.Resource)
	case kernel.Del:
		return d.links.Delete(op.Resource)
	case kernel.Rules:
		if err := d.nft.Run(ctx, op.Script()); err != nil {
			return err
		}
		return d.flows.Move(op.Table, want.Table(op.Table).UDPBackends(op.Frontends))
	}
	return fmt.Errorf("there is no way to carry out a %T", op)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
