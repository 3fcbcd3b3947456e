// Package report is the command that packs what a bug report needs into one archive, without secrets.
package report

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"porthole.dev/porthole/cli/origin"
)

// Command is `porthole report`.
func Command() *cobra.Command {
	var from origin.Flags
	var file string
	var list, yes bool
	c := &cobra.Command{
		Use:   "report",
		Short: "Pack what a bug report needs into one archive, without secrets, after it was listed",
		Long: `Gathers what is known of the cluster: nodes, pods, services and what is not right with each, events, what the nodes' programs answer, and in a local
cluster the ends of its logs. It lists every file with its size, asks, and then writes one archive. Nothing is sent anywhere.

Secrets and ConfigMaps are not read, nor the environments of containers. In texts, what looks like a token, a key, a password in an address or a
private key is replaced. Names and addresses of nodes, pods, services and images stay: read the archive before you give it to somebody.`,
		Example: "  porthole report\n  porthole report --list\n  porthole report --yes --file report.tar.gz --kubeconfig admin.conf",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			entries, err := gather(c.Context(), from)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			printList(out, entries)
			if list {
				return nil
			}
			if file == "" {
				file = "porthole-report-" + time.Now().UTC().Format("20060102-150405") + ".tar.gz"
			}
			if !yes {
				fmt.Fprintf(out, "Write all of this to %s? [y/N] ", file)
				answer, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n') // no answer is a no
				if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
					fmt.Fprintln(out, "nothing was written")
					return nil
				}
			}
			if err := write(file, entries, time.Now()); err != nil {
				return err
			}
			fmt.Fprintf(out, "wrote %s\n", file)
			return nil
		},
	}

	from.AddTo(c.Flags())
	c.Flags().StringVar(&file, "file", "",
		"archive to write; it must not be there yet; empty: porthole-report-TIME.tar.gz in this folder")
	c.Flags().BoolVar(&list, "list", false, "list what would be in the archive, and write nothing")
	c.Flags().BoolVar(&yes, "yes", false, "write it without asking")
	return c
}

// entry is one file of the archive.
type entry struct {
	name, what string
	data       []byte
	removed    int // secrets that were replaced
}

func printList(out io.Writer, entries []entry) {
	total, removed := 0, 0
	for _, e := range entries {
		note := ""
		if e.removed > 0 {
			note = fmt.Sprintf(" (%d secrets replaced)", e.removed)
		}
		fmt.Fprintf(out, "%8d  %-36s %s%s\n", len(e.data), e.name, e.what, note)
		total += len(e.data)
		removed += e.removed
	}
	fmt.Fprintf(out, "%8d  bytes in %d files; %d texts that look like secrets were replaced\n", total, len(entries),
		removed)
}

// write makes the archive. It is readable for its owner only, and an existing file is left alone.
func write(file string, entries []entry, now time.Time) (err error) {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(file) // half an archive is none
		}
	}()

	zip := gzip.NewWriter(f)
	archive := tar.NewWriter(zip)
	for _, e := range entries {
		if err := archive.WriteHeader(&tar.Header{Name: "porthole-report/" + e.name, Mode: 0o600,
			Size: int64(len(e.data)), ModTime: now}); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		if _, err := archive.Write(e.data); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return zip.Close()
}

// gatherLimit bounds all questions.
const gatherLimit = time.Minute

func gather(ctx context.Context, from origin.Flags) ([]entry, error) {
	ctx, cancel := context.WithTimeout(ctx, gatherLimit)
	defer cancel()
	o, facts, err := from.Asked(ctx)
	if err != nil {
		return nil, err
	}
	entries, err := fromFacts(facts, time.Now())
	if err != nil {
		return nil, err
	}
	entries = append(entries, fromNodes(ctx, o, facts)...)
	logs, err := localLogs(from)
	if err != nil {
		return nil, err
	}
	entries = append(entries, logs...)
	for i := range entries {
		entries[i].data, entries[i].removed = Redact(entries[i].data)
	}
	return entries, nil
}
