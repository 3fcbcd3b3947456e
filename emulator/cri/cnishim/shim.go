// Package cnishim is the CNI plugin that the Linux containerd of an emulated Windows host calls. It does what containerd
// on Windows does itself: makes the HCN namespace of a pod, then runs the configured Windows plugin, by Wine, with that
// namespace's GUID. It decides nothing about the network.
package cnishim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/cri/guestns"
	"porthole.dev/porthole/emulator/wine"
	"porthole.dev/porthole/internal/atomicfile"
)

// Call is one call of the plugin.
type Call struct {
	HostDir string            // the host's folder
	Env     map[string]string // CNI_COMMAND, CNI_CONTAINERID, CNI_NETNS, CNI_IFNAME, CNI_ARGS
	Stdin   []byte
	Stdout  io.Writer
	Timeout time.Duration // for one plugin; zero: one minute
}

// cniVersion is spoken towards containerd.
const cniVersion = "1.0.0"

// Config is the configuration that makes containerd call the program called PluginType.
func Config() []byte {
	return []byte(`{
  "cniVersion": "` + cniVersion + `",
  "name": "porthole-hcn",
  "plugins": [{"type": "` + PluginType + `", "capabilities": {"portMappings": true, "dns": true, "bandwidth": true}}]
}
`)
}

// PluginType is the file name of the wrapper that calls `porthole host-cni`.
const PluginType = "porthole-hcn"

// Install writes containerd's CNI configuration and the wrapper for a host: <host>/cni/net.d and <host>/cni/bin.
func Install(hostDir, porthole string) error {
	conf, bin := filepath.Join(hostDir, "cni", "net.d"), filepath.Join(hostDir, "cni", "bin")
	for _, dir := range []string{conf, bin} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("installing the CNI shim: %w", err)
		}
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s host-cni --host-dir %s\n", quote(porthole), quote(hostDir))
	if err := replace(filepath.Join(bin, PluginType), []byte(wrapper), 0o755); err != nil {
		return fmt.Errorf("installing the CNI shim: %w", err)
	}
	if err := replace(filepath.Join(conf, "10-porthole.conflist"), Config(), 0o644); err != nil {
		return fmt.Errorf("installing the CNI shim: %w", err)
	}
	return nil
}

// quote makes one word of a shell command from a path.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// replace writes a file in one step, and not if it holds the same already: containerd watches the folder.
func replace(path string, data []byte, mode os.FileMode) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return atomicfile.Write(path, data, mode)
}

// Run carries out one call. The answer, on success and on failure, is what CNI wants on standard output.
func Run(ctx context.Context, c Call) error {
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	err := c.run(ctx)
	if err == nil {
		return nil
	}
	var failed pluginError
	if errors.As(err, &failed) && json.Valid(failed.answer) {
		c.Stdout.Write(failed.answer)
		return err
	}
	json.NewEncoder(c.Stdout).Encode(map[string]any{"cniVersion": cniVersion, "code": 999, "msg": err.Error()})
	return err
}

// Status carries out STATUS for the host's configuration. The caller is in the host's network namespace. The error is the first plugin's.
func Status(ctx context.Context, hostDir string) error {
	c := Call{HostDir: hostDir, Env: map[string]string{"CNI_COMMAND": "STATUS"}, Timeout: time.Minute}
	return c.ask(ctx)
}

// run carries out the command of CNI_COMMAND.
func (c Call) run(ctx context.Context) error {
	switch command := c.Env["CNI_COMMAND"]; command {
	case "VERSION":
		return json.NewEncoder(c.Stdout).Encode(map[string]any{"cniVersion": cniVersion, "supportedVersions": supported})
	case "STATUS", "GC":
		return c.ask(ctx)
	case "ADD", "CHECK":
		return c.add(ctx, command)
	case "DEL":
		return c.del(ctx)
	default:
		return fmt.Errorf("CNI command %q is not known", command)
	}
}

var supported = []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// add calls the Windows plugins of the network in their order, each with the result of the one before, and answers with the last
// result. CHECK calls them in the same way and answers nothing. Both make the pod's HCN namespace first if there is none.
func (c Call) add(ctx context.Context, command string) error {
	n, err := c.network()
	if err != nil {
		return err
	}
	guid, err := c.host().Make(ctx, c.Env["CNI_CONTAINERID"], c.Env["CNI_NETNS"])
	if err != nil {
		return err
	}
	var result json.RawMessage
	for _, p := range n.plugins {
		stdin, err := n.stdin(p, c.outer(), result)
		if err != nil {
			return err
		}
		answer, err := c.exec(ctx, p, guid, stdin)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(answer)) > 0 {
			result = answer
		}
	}

	if command == "CHECK" {
		return nil
	}
	if len(result) == 0 {
		return errors.New("the Windows CNI plugin gave no result")
	}
	_, err = c.Stdout.Write(result)
	return err
}

// ask carries out STATUS and GC, which are about all pods. As with other runtimes only plugins get them whose configuration has a version
// that knows these commands; without a configuration both fail. The list of attachments for GC goes on as it came.
func (c Call) ask(ctx context.Context) error {
	n, err := c.network()
	if err != nil || !n.knowsStatus() {
		return err
	}
	for _, p := range n.plugins {
		stdin, err := n.stdin(p, nil, nil)
		if err == nil && c.Env["CNI_COMMAND"] == "GC" {
			stdin, err = withAttachments(stdin, c.outer())
		}
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, p, "", stdin); err != nil {
			return err
		}
	}
	return nil
}

// del calls the plugins in reverse order, as CNI prescribes, and deletes the pod's HCN namespace. A configuration or plugin that
// is gone does not count: the namespace is deleted nevertheless. If hnsd does not answer, the call fails, and containerd tries
// again later. The Linux namespace may be gone already (the machine was restarted), so the GUID is the one remembered at ADD.
func (c Call) del(ctx context.Context) error {
	guid, known, err := c.host().Find(c.Env["CNI_CONTAINERID"])
	if err != nil {
		return err
	}
	if !known {
		guid = unknownGUID
	}
	if n, err := c.network(); err == nil {
		for i := len(n.plugins) - 1; i >= 0; i-- {
			stdin, err := n.stdin(n.plugins[i], c.outer(), c.previous())
			if err != nil {
				return err
			}
			if _, err := c.exec(ctx, n.plugins[i], guid, stdin); err != nil && !errors.Is(err, errNoPlugin) {
				return err
			}
		}
	}
	return c.host().Delete(ctx, c.Env["CNI_CONTAINERID"])
}

func (c Call) host() guestns.Host { return guestns.Host{Dir: c.HostDir} }

// unknownGUID is given to plugins for a pod that was never added, so that they still free what they keep by its id.
const unknownGUID = "00000000-0000-0000-0000-000000000000"

// outer is what containerd sent: the name, and what its capabilities brought.
func (c Call) outer() map[string]json.RawMessage {
	conf := map[string]json.RawMessage{}
	if json.Unmarshal(c.Stdin, &conf) != nil {
		return nil
	}
	return conf
}

func (c Call) previous() json.RawMessage { return c.outer()["prevResult"] }

// network reads the CNI configuration that the Windows host uses now. It is read for each call: the network may change while the
// host runs.
func (c Call) network() (network, error) {
	path, err := cri.WindowsCNIConfig(c.HostDir)
	if err != nil {
		return network{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return network{}, fmt.Errorf("reading the Windows CNI configuration: %w", err)
	}
	n, err := parseNetwork(data)
	if err != nil {
		return network{}, fmt.Errorf(`reading C:\etc\cni\net.d\%s: %w`, filepath.Base(path), err)
	}
	return n, nil
}

// errNoPlugin is the cause when the plugin's program is absent.
var errNoPlugin = errors.New(`the program is not in C:\opt\cni\bin`)

// pluginError carries the answer that a failing plugin gave, if it gave one.
type pluginError struct {
	answer []byte
	cause  error
}

func (e pluginError) Error() string {
	if len(e.answer) == 0 {
		return e.cause.Error() + ", without an answer"
	}
	return fmt.Sprintf("%v: %s", e.cause, e.answer)
}

func (e pluginError) Unwrap() error { return e.cause }

// exec runs one Windows plugin. A plugin that fails writes its error to standard output (CNI's specification, "Error"): one that wrote nothing
// there was ended before it could (docs/limits.md). DEL is carried out once more then, because CNI lets it be repeated. Other commands fail.
func (c Call) exec(ctx context.Context, p plugin, guid string, stdin []byte) ([]byte, error) {
	answer, err := c.execOnce(ctx, p, guid, stdin)
	var failed pluginError
	var ended *exec.ExitError
	silent := errors.As(err, &failed) && len(failed.answer) == 0 && errors.As(err, &ended) && ended.Exited()
	if !silent || c.Env["CNI_COMMAND"] != "DEL" || ctx.Err() != nil {
		return answer, err
	}

	klog.FromContext(ctx).Error(err, "DEL ended without an answer, trying once more", "container", c.Env["CNI_CONTAINERID"])
	return c.execOnce(ctx, p, guid, stdin)
}

// execOnce runs the plugin in the host's prefix; the network namespace is ours already, the host's.
func (c Call) execOnce(ctx context.Context, p plugin, guid string, stdin []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	prefix := wine.Prefix{Dir: filepath.Join(c.HostDir, "prefix")}
	linux, err := wine.LinuxPath(prefix.DriveC(), `C:\opt\cni\bin\`+p.kind+".exe")
	if err != nil {
		return nil, fmt.Errorf("CNI plugin %s: %w", p.kind, err)
	}
	if _, err := os.Stat(linux); err != nil {
		return nil, fmt.Errorf("CNI plugin %s: %w", p.kind, errNoPlugin)
	}
	tools, err := wine.Find()
	if err != nil {
		return nil, err
	}

	var out, errOut bytes.Buffer
	cmd := tools.Command(ctx, prefix, `C:\opt\cni\bin\`+p.kind+".exe")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errOut
	cmd.Env = append(cmd.Env, wine.Errors, "CNI_NETNS="+guid, `CNI_PATH=C:\opt\cni\bin`)
	for _, name := range []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_ARGS"} {
		cmd.Env = append(cmd.Env, name+"="+c.Env[name])
	}
	if err := cmd.Run(); err != nil {
		return nil, pluginError{answer: bytes.TrimSpace(out.Bytes()), cause: fmt.Errorf("CNI plugin %s.exe: %w%s", p.kind, err, note(errOut.String()))}
	}
	return out.Bytes(), nil
}

func note(text string) string {
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return " (" + text + ")"
}
