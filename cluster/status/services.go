package status

import (
	"fmt"

	"porthole.dev/porthole/proxy/health"
)

// ShareServices notes for every node the services that one program keeps for all. What is wrong with them is said once.
func (s *Status) ShareServices(c Counts) {
	for i := range s.Nodes {
		s.Nodes[i].Services = c
		if i > 0 {
			s.Nodes[i].Services.Problems = nil
		}
	}
}

// CountServices turns the status of our service proxy into counts.
func CountServices(s health.Status) Counts {
	c := Counts{Wanted: s.Wanted, Present: s.Programmed, Failed: s.Services[health.Failed],
		Pending: s.Services[health.Pending],
		ByState: map[string]int{}, Error: s.Error}
	if !s.Ready && c.Error == "" {
		c.Error = "the service proxy has not looked at the host yet"
	}

	for state, n := range s.Services {
		c.ByState[string(state)] = n
	}
	for _, list := range [][]health.ServiceLine{s.Failed, s.Pending, s.Unserved} {
		for _, l := range list {
			if l.State == health.Pending && l.Message == "" {
				l.Message = fmt.Sprintf("%d of %d frontends are programmed, the others wait for HNS", l.Programmed,
					l.Frontends)
			}
			l.Frontends, l.Programmed = 0, 0 // the message has them
			c.WithProblems = append(c.WithProblems, l)
			c.Problems = append(c.Problems, l.String())
		}
	}

	if s.Omitted > 0 {
		c.Problems = append(c.Problems, fmt.Sprintf("and %d more", s.Omitted))
	}
	return c
}
