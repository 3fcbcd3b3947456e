package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"porthole.dev/porthole/emulator/hnsd/ipstack"
	"porthole.dev/porthole/emulator/hnsd/latency"
	"porthole.dev/porthole/emulator/hnsd/serve"
)

// spoilHelp describes the verbs that make HNS fail.
func spoilHelp() string {
	var actions []string
	for _, name := range slices.Sorted(maps.Keys(serve.Actions)) {
		actions = append(actions, fmt.Sprintf("                    %-6s %s", name, serve.Actions[name]))
	}
	return `
  fault             the rules by which calls go wrong, with their hits
  fault FILE        replace them by a JSON list of rules (- reads standard input): [{"function": "HcnCreate*",
                    "action": "fail", "code": 2151350291, "times": 1}]. A rule holds for calls of function and program,
                    whose documents match (a regular expression); of those for the nth, for a probability with a seed,
                    for the first times, or within forMs. delayMs delays; action is one of:
` + strings.Join(actions, "\n") + `
  fault none        end all of them
  scenario          known ways in which HNS fails; scenario F-4 makes one happen
  latency [NAME]    how long calls take, and what was injected so far; NAME is one of ` + strings.Join(latency.Names(), ", ") + `
  service [STATE]   running (a restart, if it runs), stopped, stopping, starting, gone, missing; followed by keep=all|none|half,
                    lose=KIND,…, for=MILLISECONDS (then it runs again)
  lose KIND         forget objects silently: LoadBalancer, Endpoint, RemoteEndpoint, LocalEndpoint, Network, Namespace,
                    SdnRoute; followed by a number or 50%, match=REGEXP, plane (the packets only: the objects stay listed)
  repair            carry again what was lost with plane
  pool [SIZE]       blocks of ephemeral ports, one for each load balancer without direct server return
  dns [SERVERS]     the DNS servers that the host gets with its address: addresses separated by commas, none, or machine for those
                    of this machine's resolv.conf; until HNS starts again
`
}

// spoil carries out one of these verbs, or tells that it knows no such verb.
func (h hnsCall) spoil(ctx context.Context, verb string, rest []string) (known bool, err error) {
	switch {
	case verb == "latency" && len(rest) == 0:
		return true, ask(ctx, h, "GET /latency", nil, printLatency)
	case verb == "latency" && len(rest) == 1:
		return true, ask(ctx, h, "POST /latency", encode(map[string]string{"profile": rest[0]}), printLatency)

	case verb == "scenario" && len(rest) == 0:
		return true, ask(ctx, h, "GET /scenarios", nil, printScenarios)
	case verb == "scenario" && len(rest) == 1:
		return true, ask(ctx, h, "POST /scenario", encode(map[string]string{"name": rest[0]}),
			func(out io.Writer, r serve.ScenarioRow) error {
				return printScenarios(out, []serve.ScenarioRow{r})
			})

	case verb == "service" && len(rest) == 0:
		return true, ask(ctx, h, "GET /service", nil, printService)
	case verb == "service":
		q, err := serviceRequest(rest)
		if err != nil {
			return true, err
		}
		return true, ask(ctx, h, "POST /service", encode(q), printService)

	case verb == "lose" && len(rest) > 0:
		q, err := loseRequest(rest)
		if err != nil {
			return true, err
		}
		return true, ask(ctx, h, "POST /lose", encode(q), func(out io.Writer, a struct{ Lost int }) error {
			_, err := fmt.Fprintf(out, "%d objects lost\n", a.Lost)
			return err
		})

	case verb == "repair" && len(rest) == 0:
		_, err := h.call(ctx, "POST", "/repair", nil)
		return true, err

	case verb == "pool" && len(rest) == 0:
		return true, ask(ctx, h, "GET /pool", nil, printPool)
	case verb == "pool" && len(rest) == 1:
		size, err := strconv.Atoi(rest[0])
		if err != nil {
			return true, fmt.Errorf("pool %s: not a number of blocks", rest[0])
		}
		return true, ask(ctx, h, "POST /pool", encode(serve.PoolRequest{Size: &size}), printPool)

	case verb == "dns" && len(rest) == 0:
		return true, ask(ctx, h, "GET /dns", nil, printDNS)
	case verb == "dns" && len(rest) == 1:
		servers, err := ipstack.ParseDNS(rest[0])
		if err != nil {
			return true, fmt.Errorf("dns %s: %w", rest[0], err)
		}
		return true, ask(ctx, h, "POST /dns", encode(serve.DNSRequest{Servers: servers}), printDNS)
	}
	return false, nil
}

// encode is for our own structures, which can always be encoded.
func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only our own structures come here
	}
	return data
}

// serviceRequest parses the words of `hns NAME service`: the state, and keep=, lose= and for=, the last in
// milliseconds.
func serviceRequest(words []string) (q serve.ServiceRequest, err error) {
	q.State = words[0]
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "keep":
			q.Keep = value
		case "lose":
			q.Lose = strings.Split(value, ",")
		case "for":
			if q.ForMs, err = strconv.Atoi(value); err != nil {
				return q, fmt.Errorf("service: %s: not a number of milliseconds", w)
			}
		default:
			return q, fmt.Errorf("service: unknown word %q: known are keep=, lose= and for=", w)
		}
	}
	return q, nil
}

// loseRequest parses the words of `hns NAME lose`: the kind of objects, and how many or which of them, in any order. A
// number is a count, a number with % a share.
func loseRequest(words []string) (q serve.LoseRequest, err error) {
	q.Kind = words[0]
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		percent, isPercent := strings.CutSuffix(w, "%")
		switch {
		case w == "plane":
			q.PlaneOnly = true
		case w == "renew":
			q.Renew = true
		case key == "match":
			q.Match = value
		case isPercent:
			q.Percent, err = strconv.ParseFloat(percent, 64)
		default:
			q.Count, err = strconv.Atoi(w)
		}
		if err != nil {
			return q, fmt.Errorf("lose: unknown word %q: a number, a percentage, match=, plane or renew", w)
		}
	}
	return q, nil
}

// printLatency prints what was injected so far, by program; times of a queue are no part of the
// latency.
func printLatency(out io.Writer, r serve.LatencyReport) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "latencies of %s; injected so far:\n", r.Profile)
	fmt.Fprintln(w, "PROGRAM\tWRITES\tSECONDS\tREADS\tSECONDS\tQUEUED")
	for _, name := range slices.Sorted(maps.Keys(r.Programs)) {
		c := r.Programs[name]
		fmt.Fprintf(w, "%s\t%d\t%.3f\t%d\t%.3f\t%.3f\n", name, c.Writes, c.WriteSeconds, c.Reads, c.ReadSeconds,
			c.QueueSeconds)
	}
	return w.Flush()
}

// printScenarios prints each row with what a test has to bring about itself.
func printScenarios(out io.Writer, rows []serve.ScenarioRow) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\n", r.Name, r.What)
		if r.Needs != "" {
			fmt.Fprintf(w, "\tneeds %s\n", r.Needs)
		}
	}
	return w.Flush()
}

func printService(out io.Writer, s serve.ServiceStatus) error {
	_, err := fmt.Fprintf(out, "HNS is %s; %d restarts, %d objects lost at the last one\n", s.State, s.Restarts, s.Lost)
	return err
}

func printPool(out io.Writer, p serve.Pool) error {
	_, err := fmt.Fprintf(out, "%d of %d blocks of %d ports in use\n", p.Used, p.Size, p.BlockSize)
	return err
}

func printDNS(out io.Writer, d serve.DNSRequest) error {
	_, err := fmt.Fprintf(out, "DNS servers: %s\n", d.Servers)
	return err
}
