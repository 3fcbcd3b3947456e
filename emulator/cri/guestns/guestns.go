// Package guestns makes and deletes the HCN namespaces of an emulated host's pods. It makes the same calls of HCN as containerd on
// Windows, so that injected latencies, faults and outages of HNS affect them. The host's CNI plugin makes and deletes a namespace for each
// pod; the container runtime deletes those that are left because HNS could not be reached.
package guestns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"porthole.dev/porthole/emulator/hnsd"
	"porthole.dev/porthole/emulator/hnsd/control"
	"porthole.dev/porthole/emulator/wire"
	"porthole.dev/porthole/internal/atomicfile"
)

// Program is the name under which HNS counts the calls, and by which fault rules choose them.
const Program = "containerd.exe"

// limit bounds the calls for one namespace.
const limit = 20 * time.Second

// Host is an emulated host.
type Host struct {
	Dir string // the host's folder
	// Dial connects to its HNS. nil connects to wire.HNSAddress; the caller must be in the host's network namespace then.
	Dial func(context.Context) (net.Conn, error)
}

// pod is the record of a pod in a file: the id of its HCN namespace and the path of its Linux network namespace.
type pod struct{ id, netns string }

// Make makes the HCN namespace of a pod, or finds the one that an earlier call made, and returns its id. netns is the path of the
// pod's Linux network namespace.
//
// Unlike containerd it chooses the id, and records it before the call, so that the namespace can be deleted if the answer is lost.
func (h Host) Make(ctx context.Context, container, netns string) (id string, err error) {
	path, err := h.file(container)
	if err != nil {
		return "", err
	}
	p, err := read(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		p = pod{string(uuid.NewUUID()), netns}
		err = p.write(path)
	case err == nil && p.netns != netns:
		p.netns = netns
		err = p.write(path)
	}
	if err != nil {
		return "", fmt.Errorf("remembering the pod's HCN namespace: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// HNS knows nothing of Linux namespaces, so the path goes to hnsd's control socket. It must be there before the creation, or the data
	// plane would make a Linux namespace of its own.
	bind := map[string]string{"id": p.id, "path": netns}
	if err := control.Host(h.Dir).Call(ctx, http.MethodPost, "/netns", bind, nil); err != nil {
		return "", fmt.Errorf("making the pod's HCN namespace: %w", err)
	}
	written, err := h.create(ctx, p.id)
	if err != nil {
		return "", fmt.Errorf("making the pod's HCN namespace: %w", err)
	}
	if written != p.id {
		p.id = written
		err = p.write(path)
	}
	return p.id, err
}

// Find returns the id of a pod's HCN namespace; known is false if none is remembered.
func (h Host) Find(container string) (id string, known bool, err error) {
	path, err := h.file(container)
	if err != nil {
		return "", false, err
	}
	p, err := read(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", false, nil
	}
	return p.id, err == nil, err
}

// Delete deletes the HCN namespace of a pod, which may be gone already, and its record. It does nothing if there is no record. After an
// error the record stays.
func (h Host) Delete(ctx context.Context, container string) error {
	path, err := h.file(container)
	if err != nil {
		return err
	}
	return h.remove(ctx, path)
}

// DeleteEnded deletes the HCN namespaces of pods whose Linux network namespace has been removed. This is needed because containerd does
// not call CNI again for a pod whose network was never complete. On Windows it deletes the HCN namespace itself.
func (h Host) DeleteEnded(ctx context.Context) error {
	files, err := os.ReadDir(h.folder())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}

	var all []error
	for _, f := range files {
		path := filepath.Join(h.folder(), f.Name())
		p, err := read(path)
		if err != nil || p.netns == "" || !netnsGone(p.netns) {
			continue
		}
		all = append(all, h.remove(ctx, path))
	}
	return errors.Join(all...)
}

// remove deletes the HCN namespace that the file at path remembers, and then the file. Without the file it does nothing.
func (h Host) remove(ctx context.Context, path string) error {
	p, err := read(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := h.destroy(ctx, p.id); err != nil {
		return fmt.Errorf("deleting the pod's HCN namespace %s: %w", p.id, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// create makes the calls of hcsshim's HostComputeNamespace.Create, and returns the id as HNS writes it.
func (h Host) create(ctx context.Context, id string) (string, error) {
	c, err := h.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()

	settings, err := json.Marshal(map[string]any{"ID": id, "SchemaVersion": map[string]int{"Major": 2, "Minor": 0}})
	if err != nil {
		return "", err
	}
	handle, _, err := c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Create), Text: [3]string{string(settings)}})
	if isCode(err, hnsd.ErrAlreadyExists) || isCode(err, hnsd.ErrObjectAlreadyExists) { // the answer to an earlier attempt was lost
		handle, _, err = c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Open), GUID: id})
	}
	if err != nil {
		return "", err
	}

	_, text, err := c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Query), Handle: handle, Text: [3]string{query("")}})
	if err != nil {
		return "", err
	}
	var doc struct{ ID string }
	if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.ID == "" {
		return "", fmt.Errorf("HNS made a namespace and its document has no id: %s", text)
	}
	_, _, err = c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Close), Handle: handle})
	return doc.ID, err
}

// destroy makes the calls of hcsshim's GetNamespaceByID and HostComputeNamespace.Delete, which containerd makes when it removes a
// pod's network namespace. A namespace that is gone is success, as there.
func (h Host) destroy(ctx context.Context, id string) error {
	c, err := h.connect(ctx)
	if err != nil {
		return err
	}
	defer c.close()

	_, text, err := c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Enumerate), Text: [3]string{query(`{"ID":"` + id + `"}`)}})
	if err != nil {
		return err
	}
	var ids []string
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return fmt.Errorf("HNS lists namespaces as %s: %w", text, err)
	}
	for _, found := range ids {
		_, _, err := c.Call(wire.Request{Op: wire.On(hnsd.Namespace, wire.Delete), GUID: strings.ToLower(found)})
		if err != nil && !isCode(err, hnsd.ErrElementNotFound) {
			return err
		}
	}
	return nil
}

// query is hcsshim's defaultQuery with a filter.
func query(filter string) string {
	data, err := json.Marshal(map[string]any{"SchemaVersion": map[string]int{"Major": 2, "Minor": 0}, "Flags": 0, "Filter": filter})
	if err != nil {
		return ""
	}
	return string(data)
}

func isCode(err error, want *hnsd.Error) bool {
	var e *wire.HRESULT
	return errors.As(err, &e) && e.Code == want.Code
}

// conn is a connection to HNS like those of the DLLs.
type conn struct {
	*wire.Conn
	tcp net.Conn
}

func (c conn) close() { c.tcp.Close() }

// connect begins a connection. Calls end with ctx.
func (h Host) connect(ctx context.Context) (conn, error) {
	dial := h.Dial
	if dial == nil {
		dial = func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp4", wire.HNSAddress)
		}
	}
	tcp, err := dial(ctx)
	if err != nil {
		return conn{}, fmt.Errorf("reaching HNS: %w", err)
	}

	if deadline, ok := ctx.Deadline(); ok {
		_ = tcp.SetDeadline(deadline) // an open connection takes deadlines
	}
	// This process id is larger than any of a Windows program.
	hns, err := wire.NewConn(tcp, 1<<40|uint64(os.Getpid()), Program)
	if err != nil {
		tcp.Close()
		return conn{}, err
	}
	return conn{hns, tcp}, nil
}

func (h Host) folder() string { return filepath.Join(h.Dir, "cni", "pods") }

// file returns the path of the file that remembers a pod.
func (h Host) file(container string) (string, error) {
	if container == "" || container != filepath.Base(container) || container == "." || container == ".." {
		return "", fmt.Errorf("CNI container id %q is not a name", container)
	}
	return filepath.Join(h.folder(), container), nil
}

func read(path string) (pod, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return pod{}, err
	}
	id, netns, _ := strings.Cut(string(data), " ")
	return pod{id, netns}, nil
}

func (p pod) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, []byte(p.id+" "+p.netns), 0o644)
}
