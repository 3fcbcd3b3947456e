package attach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/cni/ipam"
	"porthole.dev/porthole/hns"
)

// deadline of a whole CNI call. Runtimes give up later than that.
const deadline = 90 * time.Second

// Main serves one CNI call from the environment and standard input, and ends the process. Name and about are the
// plugin's, for messages.
func Main(name, about string, p Plugin) {
	serve := func(do func(context.Context, Call) error) func(*skel.CmdArgs) error {
		return serving(name, p.Fields, do)
	}
	if err := checkInput(); err != nil {
		// to standard output, where a runtime reads it; an error of writing there can be reported nowhere
		_ = err.Print()
		os.Exit(1)
	}

	skel.PluginMainFuncs(skel.CNIFuncs{
		Add: serve(func(ctx context.Context, c Call) error {
			result, err := p.Add(ctx, c)
			if err != nil {
				return err
			}
			v := c.Config.CNIVersion
			if v == "" {
				v = "0.2.0" // some configurations in the field name none
			}
			return types.PrintResult(result, v)
		}),
		Del:    serve(p.Del),
		Check:  serve(p.Check),
		Status: serve(func(ctx context.Context, c Call) error { return p.Status(ctx, c.Config) }),
		GC:     serve(func(ctx context.Context, c Call) error { return p.GC(ctx, c.Config) }),
	}, version.VersionsStartingFrom("0.1.0"), name+": "+about)
}

// checkInput reads the configuration and puts it back for package skel, whose error for a text that is not JSON does
// not name the line. It reads nothing where skel reads nothing: for VERSION, and for a person who starts the program
// without CNI_COMMAND to see what it is. Standard input may be a terminal then, and reading it would never end.
func checkInput() *types.Error {
	if command := os.Getenv("CNI_COMMAND"); command == "" || command == "VERSION" {
		return nil
	}

	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		return types.NewError(types.ErrIOFailure, "reading standard input: "+err.Error(), "")
	}
	var any map[string]json.RawMessage
	if err := json.Unmarshal(data, &any); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return types.NewError(types.ErrDecodingFailure,
			fmt.Sprint("reading the network configuration", contract.At(data, err)), "")
	}

	r, w, err := os.Pipe()
	if err != nil {
		return types.NewError(types.ErrIOFailure, "passing on standard input: "+err.Error(), "")
	}
	os.Stdin = r
	go func() {
		_, _ = w.Write(data) // a reader that goes away has its own error
		_ = w.Close()
	}()
	return nil
}

// serving reads the configuration of a call, reports each of its warnings once, and bounds the time of the call.
func serving(name string, fields []string, do func(context.Context, Call) error) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		parse := contract.Parse
		if command := os.Getenv("CNI_COMMAND"); command == "DEL" || command == "GC" {
			parse = contract.ParseToRemove
		}
		config, err := parse(args.StdinData)
		if err != nil {
			return types.NewError(types.ErrInvalidNetworkConfig, err.Error(), "")
		}
		for _, w := range newWarnings(ipam.DirOf(config.IPAM, config.Name), warnings(config, fields)) {
			fmt.Fprintln(os.Stderr, name+":", w)
		}

		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		err = do(ctx, Call{Container: args.ContainerID, Namespace: args.Netns, Interface: args.IfName, Args: args.Args,
			Config: config})
		if err != nil && hns.ClassOf(err) == hns.Unknown && os.Getenv("CNI_COMMAND") == "STATUS" {
			return types.NewError(types.ErrPluginNotAvailable, err.Error(), "")
		}
		return err
	}
}
