// Package hostcri holds two hidden commands that a local cluster runs for an emulated Windows host: its container
// runtime, and the CNI plugin that the Linux containerd below it calls.
package hostcri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"porthole.dev/porthole/emulator/cri"
	"porthole.dev/porthole/emulator/cri/cnishim"
	"porthole.dev/porthole/emulator/wine"
)

// Command is `host-cri`.
func Command() *cobra.Command {
	var o cri.Options
	c := &cobra.Command{
		Use: "host-cri", Short: "Serve CRI for an emulated Windows host", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			tools, err := wine.Find()
			if err != nil {
				return err
			}
			o.Wine, o.WineServer, o.CPUs = tools.Loader, tools.Server, runtime.NumCPU()
			if o.HostDir == "" {
				return errors.New("--host-dir is needed")
			}
			if o.HostDir, err = filepath.Abs(o.HostDir); err != nil {
				return err
			}
			if err := fromHostFile(&o, c.Flags().Changed("build")); err != nil {
				return err
			}
			if o.Host == "" {
				o.Host = filepath.Base(o.HostDir)
			}
			if o.Template == "" {
				o.Template = wine.TemplateDir(filepath.Join(o.HostDir, "..", ".."), o.Build)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if err := cnishim.Install(o.HostDir, self); err != nil {
				return err
			}
			o.CNIStatus = func(ctx context.Context) error { return cnishim.Status(ctx, o.HostDir) }
			return cri.Run(c.Context(), o)
		},
	}

	f := c.Flags()
	f.SetNormalizeFunc(hostIsHostDir)
	f.StringVar(&o.HostDir, "host-dir", "", "folder of the host (required)")
	f.StringVar(&o.Host, "name", "", "name of the host (default: the folder's name)")
	f.IntVar(&o.Build, "build", 20348, "Windows build of the host (default: what host.json in its folder says)")
	f.StringVar(&o.Template, "template", "", "Wine prefix that containers start from (default: the state folder's template of the build)")
	f.StringVar(&o.Listen, "listen", cri.Address, "TCP address for CRI")
	f.StringVar(&o.Containerd, "containerd", "", "containerd's socket (default: containerd/containerd.sock in the host's folder)")
	f.StringVar(&o.CertsDir, "registry-config", "", "registry configuration (default: containerd/certs.d in the host's folder)")
	return c
}

// hostIsHostDir lets --host be written for --host-dir.
func hostIsHostDir(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "host" {
		name = "host-dir"
	}
	return pflag.NormalizedName(name)
}

// fromHostFile takes the host's name and build from its host.json, if it has one, where no flag says otherwise.
func fromHostFile(o *cri.Options, buildGiven bool) error {
	path := filepath.Join(o.HostDir, "host.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the host's description: %w", err)
	}
	var host struct {
		Name  string `json:"name"`
		Build int    `json:"build"`
	}
	if err := json.Unmarshal(data, &host); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if o.Host == "" {
		o.Host = host.Name
	}
	if !buildGiven && host.Build != 0 {
		o.Build = host.Build
	}
	return nil
}

// CNICommand is `host-cni`. Its input and answer follow the CNI specification.
func CNICommand() *cobra.Command {
	var hostDir string
	c := &cobra.Command{
		Use: "host-cni", Short: "Be the CNI plugin of an emulated Windows host", Hidden: true, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if hostDir == "" {
				return errors.New("--host-dir is needed")
			}
			stdin, err := io.ReadAll(io.LimitReader(os.Stdin, 1<<20))
			if err != nil {
				return fmt.Errorf("reading the CNI configuration: %w", err)
			}
			env := map[string]string{}
			for _, name := range []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS"} {
				env[name] = os.Getenv(name)
			}
			return cnishim.Run(c.Context(), cnishim.Call{HostDir: hostDir, Env: env, Stdin: stdin, Stdout: os.Stdout})
		},
	}
	c.Flags().SetNormalizeFunc(hostIsHostDir)
	c.Flags().StringVar(&hostDir, "host-dir", "", "folder of the host (required)")
	return c
}
