package web

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"porthole.dev/porthole/web/collect"
	"porthole.dev/porthole/web/model"
	"porthole.dev/porthole/web/serve"
)

// answers are those of recorded questions, in the form that cli/web gives them. Reasons are computed, as in the
// program.
func answers(c *collect.Collector) map[string]serve.Question {
	recorded := func(text string) serve.Question {
		return func(context.Context, *http.Request) (any, error) { return json.RawMessage(text), nil }
	}
	return map[string]serve.Question{
		"why": func(_ context.Context, r *http.Request) (any, error) {
			chain, err := model.Why(c.Facts(), r.URL.Query().Get("kind"), r.URL.Query().Get("name"), time.Now())
			return chain, err
		},
		"plots": recorded(`{"latency":[{"at":"2026-11-01T12:00:00Z","node":"win01","median":12,"p99":40,"count":3},{"at":"2026-11-01T12:01:00Z","node":"win01","median":9,"p99":31,"count":2}],
			"calls":[{"at":"2026-11-01T12:00:00Z","node":"win01","call":"list","perSecond":2,"failed":0,"took":4},{"at":"2026-11-01T12:01:00Z","node":"win01","call":"list","perSecond":3,"failed":1,"took":4}]}`),
		"service": recorded(
			`[{"node":"lin01","none":true},{"node":"win01","line":{"service":"shop-c/cart","state":"failed","frontends":1,"reason":"HnsCallFailed","message":"out of ports","since":"2026-11-01T12:00:00Z","failures":3}}]`),
		"images": recorded(
			`[{"image":"registry.example/shop/cart:1.4","hosts":[{"node":"win01","build":20348,"release":"Windows Server 2022","outcome":"runs"},{"node":"win02","build":26100,"outcome":"does not run"}]},{"image":"x","error":"no such image"}]`),
		"wall": recorded(
			`[{"at":"2026-11-01T12:00:00Z","key":"service/shop-c/cart","from":"right","to":"wrong","text":"out of ports"},{"at":"2026-11-01T12:00:04Z","key":"service/shop-c/cart","from":"wrong","to":"right","lasted":4}]`),
		"hosts": recorded(`{"allowed":true,"hosts":[{"name":"win01","parts":{"stats":{"calls":{"HcnEnumerateNetworks":4},"errors":{}},"latency":{"profile":"fast"},
			"faults":[{"function":"Hcn*","action":"fail","hits":2,"seen":3}],"service":{"state":"running"},"scenarios":[{"name":"F-1","what":"each call fails"}],"dump":{"networks":[{}],"endpoints":[]}}},{"name":"win02","error":"its HNS does not run"}]}`),
		"path": recorded(`{"from":"pod shop-c/cart-0000","to":"service shop-o/orders","ways":[{"backend":"10.244.1.2:80","via":["win01"],"hops":[{"at":"shop-c/cart-0000","what":"endpoint","decides":"sends from 10.244.0.2"},
			{"at":"lin01","what":"route","decides":"10.244.1.0/24","wrong":{"found":"no route to 10.244.1.2","should":"a route by 10.99.0.12","who":"porthole routes on lin01"}}],"answer":[{"at":"win01","what":"route","decides":"10.244.0.0/24","unknown":"win01 did not answer"}]}],
			"first":{"at":"lin01","what":"route","decides":"10.244.1.0/24","wrong":{"found":"no route to 10.244.1.2","should":"a route by 10.99.0.12","who":"porthole routes on lin01"}}}`),
	}
}
