package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// curlVersion is that of Windows Server 2019 to 2025 after their updates of 2025.
const curlVersion = "8.14.1"

// maxRedirects is curl's own.
const maxRedirects = 50

// addData adds text that is sent. @ names a file, from which data takes the ends of lines.
func (o *options) addData(name, value string) error {
	if file, ok := strings.CutPrefix(value, "@"); ok && name != "data-raw" {
		var text []byte
		var err error
		if file == "-" {
			text, err = io.ReadAll(os.Stdin)
		} else {
			text, err = os.ReadFile(file)
		}
		if err != nil {
			return problem{codeRead, "Failed to open " + file}
		}
		value = string(text)
		if name != "data-binary" {
			value = strings.NewReplacer("\r", "", "\n", "").Replace(value)
		}
	}
	o.data = append(o.data, value)
	return nil
}

// run asks for each URL. The result is that of the last one.
func (o options) run(out, errs io.Writer) error {
	if o.version {
		_, err := fmt.Fprintf(out, "curl %s (Windows)\nProtocols: http https\n", curlVersion)
		return err
	}
	if o.help {
		_, err := fmt.Fprintln(out,
			"Usage: curl [options...] <url>\n -d, --data <data>  -f, --fail  -H, --header <header>  -I, --head  -i, --include  -k, --insecure\n -L, --location  -m, --max-time <seconds>  -o, --output <file>  -s, --silent  -S, --show-error\n -u, --user <user:password>  -v, --verbose  -w, --write-out <format>  -X, --request <method>")
		return err
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	for _, address := range o.urls {
		for try := 0; ; try++ {
			if err = o.ask(client, address, out, errs); err == nil || try >= o.retries || !passing(err) {
				break
			}
			time.Sleep(min(time.Second<<try, 10*time.Minute)) // as curl: 1 s, then twice as long
		}
	}
	return err
}

// passing reports whether --retry tries again.
func passing(err error) bool {
	code := codeOf(err)
	return code == codeTimeout || code == codeHTTP || code == codeResolve
}

func (o options) client() (*http.Client, error) {
	config := &tls.Config{InsecureSkipVerify: o.insecure} //nolint:gosec // asked for by -k
	if o.caFile != "" {
		pem, err := os.ReadFile(o.caFile)
		config.RootCAs = x509.NewCertPool()
		if err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, problem{codeCAFile, "error setting certificate file: " + o.caFile}
		}
	}
	dialer := &net.Dialer{Timeout: o.connectLimit}
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: config, DialContext: dialer.DialContext, DisableKeepAlives: true,
			DisableCompression: true, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(_ *http.Request, via []*http.Request) error {
			if !o.follow {
				return http.ErrUseLastResponse
			}
			if len(via) > maxRedirects {
				return problem{codeRedirect, fmt.Sprintf("Maximum (%d) redirects followed", maxRedirects)}
			}
			return nil
		},
	}, nil
}

// request makes the request for an address, which may lack its scheme.
func (o options) request(ctx context.Context, address string) (*http.Request, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, problem{codeURL, "URL rejected: Malformed input to a URL function"}
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, problem{codeProtocol, fmt.Sprintf("Protocol %q not supported", u.Scheme)}
	}
	method, data := "GET", strings.Join(o.data, "&")
	var body io.Reader
	switch {
	case o.get && o.data != nil:
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+data, "&")
	case o.data != nil:
		method, body = "POST", strings.NewReader(data)
	}
	if o.headOnly {
		method = "HEAD"
	}
	if o.method != "" {
		method = o.method
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, problem{codeURL, err.Error()}
	}

	r.Header.Set("User-Agent", "curl/"+curlVersion)
	r.Header.Set("Accept", "*/*")
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if o.agent != "" {
		r.Header.Set("User-Agent", o.agent)
	}
	if o.cookie != "" {
		r.Header.Set("Cookie", o.cookie)
	}
	if name, password, _ := strings.Cut(o.user, ":"); o.user != "" {
		r.SetBasicAuth(name, password)
	}
	for _, h := range o.headers {
		name, value, ok := strings.Cut(h, ":")
		switch name, value = strings.TrimSpace(name), strings.TrimSpace(value); {
		case strings.EqualFold(name, "Host"):
			r.Host = value
		case !ok || value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// ask asks for one address and writes what comes.
func (o options) ask(client *http.Client, address string, out, errs io.Writer) (err error) {
	ctx := context.Background()
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	r, err := o.request(ctx, address)
	if err != nil {
		return err
	}
	begin := time.Now()
	o.trace(errs, ">", r.Method+" "+r.URL.RequestURI()+" HTTP/1.1", r.Header)
	answer, err := client.Do(r)
	if err != nil {
		return o.problemOf(err, r, begin)
	}
	defer answer.Body.Close()
	o.trace(errs, "<", answer.Proto+" "+answer.Status, answer.Header)

	n := int64(0)
	if answer.StatusCode >= 400 && o.fail {
		err = problem{codeHTTP, fmt.Sprintf("The requested URL returned error: %d", answer.StatusCode)}
	} else {
		n, err = o.write(answer, out, begin)
	}
	if o.writeOut != "" {
		fmt.Fprint(out, o.written(answer, n, time.Since(begin)))
	}
	return err
}

// trace writes what -v shows of a request or an answer.
func (o options) trace(errs io.Writer, mark, first string, headers http.Header) {
	if !o.verbose {
		return
	}
	fmt.Fprintf(errs, "%s %s\n", mark, first)
	for name, values := range headers {
		for _, v := range values {
			fmt.Fprintf(errs, "%s %s: %s\n", mark, name, v)
		}
	}
	fmt.Fprintf(errs, "%s\n", mark)
}

// write writes an answer to the output, or to a file.
func (o options) write(answer *http.Response, out io.Writer, begin time.Time) (n int64, err error) {
	name := o.output
	if o.remoteName {
		if name = path.Base(answer.Request.URL.Path); name == "/" || name == "." {
			return 0, problem{codeWrite, "Remote file name has no length"}
		}
	}
	if name != "" && name != "-" {
		if strings.EqualFold(name, "nul") {
			name = os.DevNull
		}
		f, err := os.Create(name)
		if err != nil {
			return 0, problem{codeWrite, fmt.Sprintf("Failed to open the file %s: %v", name, err)}
		}
		defer f.Close()
		out = f
	}
	if o.include || o.headOnly {
		fmt.Fprintf(out, "%s %s\r\n", answer.Proto, answer.Status)
		if err := answer.Header.Write(out); err != nil {
			return 0, problem{codeWrite, "Failure writing output to destination"}
		}
		fmt.Fprint(out, "\r\n")
	}

	n, err = io.Copy(out, answer.Body)
	var net net.Error
	switch {
	case err == nil:
		return n, nil
	case errors.As(err, &net) && net.Timeout() || errors.Is(err, context.DeadlineExceeded):
		return n, problem{codeTimeout,
			fmt.Sprintf("Operation timed out after %d milliseconds with %d bytes received",
				time.Since(begin).Milliseconds(), n)}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return n, problem{18, "end of response with bytes missing"}
	}
	return n, problem{codeReceive, "Recv failure: " + err.Error()}
}

// written is the text of --write-out.
func (o options) written(answer *http.Response, n int64, took time.Duration) string {
	return strings.NewReplacer("%{http_code}", strconv.Itoa(answer.StatusCode), "%{response_code}",
		strconv.Itoa(answer.StatusCode), "%{size_download}", strconv.FormatInt(n, 10),
		"%{time_total}", fmt.Sprintf("%.6f", took.Seconds()), "%{url_effective}", answer.Request.URL.String(),
		"%{content_type}", answer.Header.Get("Content-Type"),
		"%{redirect_url}", answer.Header.Get("Location"), `\n`, "\n", `\r`, "\r", `\t`, "\t", "%%", "%").
		Replace(o.writeOut)
}

// problemOf turns an error of a request into curl's.
func (o options) problemOf(err error, r *http.Request, begin time.Time) error {
	var p problem
	var dns *net.DNSError
	var op *net.OpError
	var network net.Error
	var unknown x509.UnknownAuthorityError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	host, port := r.URL.Hostname(), r.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[r.URL.Scheme]
	}

	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &dns):
		return problem{codeResolve, "Could not resolve host: " + dns.Name}
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return problem{codeTimeout,
			fmt.Sprintf("Connection timed out after %d milliseconds", time.Since(begin).Milliseconds())}
	case errors.As(err, &unknown), errors.As(err, &verify):
		return problem{codePeer, "SSL certificate problem: " + errors.Unwrap(err).Error()}
	case errors.As(err, &record):
		return problem{codeTLS, "TLS connect error: " + record.Msg}
	case errors.As(err, &op) && op.Op == "dial":
		return problem{codeConnect,
			fmt.Sprintf("Failed to connect to %s port %s after %d ms: Could not connect to server", host, port,
				time.Since(begin).Milliseconds())}
	case errors.Is(err, io.EOF):
		return problem{codeEmpty, "Empty reply from server"}
	case strings.Contains(err.Error(), "tls:"):
		return problem{codeTLS, "TLS connect error: " + err.Error()}
	}
	return problem{codeReceive, "Recv failure: " + err.Error()}
}
