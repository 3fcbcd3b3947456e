package main

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// options are what the arguments ask for.
type options struct {
	urls                                        []string
	method, output, user, agent, writeOut       string
	caFile                                      string
	headers                                     []string
	data                                        []string
	limit, connectLimit                         time.Duration // 0: none
	retries                                     int
	silent, showErrors, fail, include, headOnly bool
	follow, insecure, verbose, get              bool
	remoteName                                  bool
	version, help                               bool
	cookie                                      string
}

// problem is an error with curl's exit code.
type problem struct {
	code int
	text string
}

func (p problem) Error() string { return fmt.Sprintf("curl: (%d) %s", p.code, p.text) }

// Exit codes of curl (curl.se/docs/manpage.html, EXIT CODES).
const (
	codeProtocol = 1
	codeUsage    = 2
	codeURL      = 3
	codeResolve  = 6
	codeConnect  = 7
	codeHTTP     = 22
	codeWrite    = 23
	codeRead     = 26
	codeTimeout  = 28
	codeTLS      = 35
	codeRedirect = 47
	codeEmpty    = 52
	codeReceive  = 56
	codePeer     = 60
	codeCAFile   = 77
)

// codeOf is the exit code for an error.
func codeOf(err error) int {
	var p problem
	switch {
	case err == nil:
		return 0
	case errors.As(err, &p):
		return p.code
	}
	return codeReceive
}

// Options with a value, by their letters and names.
var (
	letters = map[byte]string{'X': "request", 'H': "header", 'd': "data", 'o': "output", 'm': "max-time", 'u': "user",
		'A': "user-agent", 'w': "write-out", 'b': "cookie",
		'e': "referer", 's': "silent", 'S': "show-error", 'f': "fail", 'i': "include", 'I': "head", 'L': "location",
		'k': "insecure", 'v': "verbose", 'G': "get",
		'O': "remote-name", 'V': "version", 'h': "help", 'N': "no-buffer", '4': "ipv4", '6': "ipv6",
		'#': "progress-bar", 'g': "globoff", 'q': "disable"}
	valued = map[string]bool{"request": true, "header": true, "data": true, "data-raw": true, "data-binary": true,
		"data-ascii": true, "data-urlencode": true, "output": true,
		"max-time": true, "connect-timeout": true, "user": true, "user-agent": true, "write-out": true, "cookie": true,
		"referer": true, "retry": true, "retry-delay": true,
		"cacert": true, "url": true, "max-redirs": true, "json": true}
	// ignored are those that change nothing here.
	ignored = map[string]bool{"no-buffer": true, "ipv4": true, "ipv6": true, "progress-bar": true, "globoff": true,
		"disable": true, "compressed": true, "http1.1": true,
		"no-progress-meter": true, "retry-delay": true, "max-redirs": true, "ssl-no-revoke": true, "no-keepalive": true}
)

// parse reads the arguments.
func parse(args []string) (o options, err error) {
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case strings.HasPrefix(arg, "--"):
			args, err = o.option(arg[2:], "", args)
		case len(arg) > 1 && arg[0] == '-':
			args, err = o.bundle(arg[1:], args)
		default:
			o.urls = append(o.urls, arg)
		}
		if err != nil {
			return o, err
		}
	}
	if len(o.urls) == 0 && !o.version && !o.help {
		return o, problem{codeUsage, "no URL specified\ncurl: try 'curl --help' for more information"}
	}
	return o, nil
}

// bundle reads options of one letter. A value is the rest of them, or the next argument.
func (o *options) bundle(text string, args []string) (_ []string, err error) {
	for i := 0; i < len(text); i++ {
		name, ok := letters[text[i]]
		if !ok {
			return nil, unknown("-" + text[i:i+1])
		}
		if valued[name] {
			return o.option(name, text[i+1:], args)
		}
		if args, err = o.option(name, "", args); err != nil {
			return nil, err
		}
	}
	return args, nil
}

func unknown(option string) error {
	return problem{codeUsage, "option " + option + ": is unknown\ncurl: try 'curl --help' for more information"}
}

// option sets one option. Its value is given, or the next argument.
func (o *options) option(name, value string, args []string) ([]string, error) {
	if valued[name] {
		if value == "" {
			if len(args) == 0 {
				return nil, problem{codeUsage,
					"option --" + name + ": requires parameter\ncurl: try 'curl --help' for more information"}
			}
			value, args = args[0], args[1:]
		}
		return args, o.set(name, value)
	}
	flag := map[string]*bool{"silent": &o.silent, "show-error": &o.showErrors, "fail": &o.fail, "include": &o.include,
		"head": &o.headOnly, "location": &o.follow,
		"insecure": &o.insecure, "verbose": &o.verbose, "get": &o.get, "remote-name": &o.remoteName,
		"version": &o.version, "help": &o.help, "fail-with-body": &o.fail}[name]
	switch {
	case flag != nil:
		*flag = true
	case !ignored[name]:
		return nil, unknown("--" + name)
	}
	return args, nil
}

// set sets an option that has a value.
func (o *options) set(name, value string) (err error) {
	switch name {
	case "request":
		o.method = value
	case "header":
		o.headers = append(o.headers, value)
	case "data", "data-raw", "data-binary", "data-ascii":
		return o.addData(name, value)
	case "data-urlencode":
		key, text, ok := strings.Cut(value, "=")
		if !ok {
			key, text = "", value
		}
		if key != "" {
			key += "="
		}
		o.data = append(o.data, key+url.QueryEscape(text))
	case "json":
		o.headers = append(o.headers, "Content-Type: application/json", "Accept: application/json")
		return o.addData("data-binary", value)

	case "output":
		o.output = value
	case "max-time":
		o.limit, err = seconds(name, value)
	case "connect-timeout":
		o.connectLimit, err = seconds(name, value)
	case "retry":
		if o.retries, err = strconv.Atoi(value); err != nil || o.retries < 0 {
			err = problem{codeUsage, "option --retry: expected a proper numerical parameter"}
		}
	case "user":
		o.user = value
	case "user-agent":
		o.agent = value
	case "write-out":
		o.writeOut = value
	case "cookie":
		o.cookie = value
	case "referer":
		o.headers = append(o.headers, "Referer: "+value)
	case "cacert":
		o.caFile = value
	case "url":
		o.urls = append(o.urls, value)
	}
	return err
}

// seconds reads a time, which may have a fraction.
func seconds(name, value string) (time.Duration, error) {
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n < 0 || n > 1e9 {
		return 0, problem{codeUsage, "option --" + name + ": expected a proper numerical parameter"}
	}
	return time.Duration(n * float64(time.Second)), nil
}
