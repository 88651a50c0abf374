// Package gatewaytest has requests that a gateway must refuse, for the gateway's own tests and for
// those that send them from inside of a box. It tests nothing itself.
package gatewaytest

import "strings"

// Just above the gateway's bounds (maxFields, maxHead).
const (
	manyFields = 201
	longHead   = 64 << 10
)

// Framings are requests that servers read in different ways, by what is wrong with them. They are
// for the given host; a server that misreads one requests something from evil.example. Each is
// complete, except "endless head", which only a bound ends.
func Framings(host string) map[string]string {
	all := map[string]string{
		"duplicate Host":          "GET / HTTP/1.1\r\nHost: a.test\r\nHost: evil.example\r\n\r\n",
		"no Host":                 "GET / HTTP/1.1\r\nX: y\r\n\r\n",
		"Host with a user":        "GET / HTTP/1.1\r\nHost: a.test@evil.example\r\n\r\n",
		"Host in Cyrillic":        "GET / HTTP/1.1\r\nHost: \u0430.test\r\n\r\n",
		"Host with a path":        "GET / HTTP/1.1\r\nHost: a.test/x\r\n\r\n",
		"two names in Host":       "GET / HTTP/1.1\r\nHost: a.test evil.example\r\n\r\n",
		"absolute form":           "GET http://evil.example/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"absolute form, same":     "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"CONNECT":                 "CONNECT evil.example:443 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"authority form":          "GET evil.example:80 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"CL and TE":               "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"two lengths":             "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
		"list of lengths":         "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4, 4\r\n\r\nabcd",
		"signed length":           "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +4\r\n\r\nabcd",
		"odd coding":              "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"coding twice":            "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"coding in 1.0":           "POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"space before colon":      "GET / HTTP/1.1\r\nHost: a.test\r\nContent-Length : 4\r\n\r\n",
		"folded line":             "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\r\n b\r\n\r\n",
		"bare LF":                 "GET / HTTP/1.1\nHost: a.test\n\n",
		"bare LF in a field":      "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n",
		"bare CR":                 "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\rb\r\n\r\n",
		"NUL":                     "GET / HTTP/1.1\r\nHost: a.test\r\nX: a\x00b\r\n\r\n",
		"h2c":                     "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"h2 preface":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/0.9":                "GET /\r\n\r\n",
		"lower-case method":       "get / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"Trailer":                 "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: Host\r\n\r\n0\r\nHost: evil.example\r\n\r\n",
		"control in target":       "GET /\x01 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"fragment":                "GET /#x HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"header flood":            "GET / HTTP/1.1\r\nHost: a.test\r\n" + strings.Repeat("X: y\r\n", manyFields) + "\r\n",
		"long head":               "GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", longHead) + "\r\n\r\n",
		"endless head":            "GET / HTTP/1.1\r\nHost: a.test\r\nX: " + strings.Repeat("y", 2*longHead),
		"empty line first":        "\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"bytes of something else": "\x00\x01\x02\x03\r\n\r\n",
	}
	for what, request := range all {
		all[what] = strings.ReplaceAll(request, "a.test", host)
	}
	return all
}

// Chunkings are bodies with invalid chunks, or with bytes after their end, by what is wrong with
// them. What follows is no request of its own.
func Chunkings() map[string]string {
	return map[string]string{
		"trailers":         "3\r\nabc\r\n0\r\nX: y\r\n\r\n",
		"extension":        "3;x=y\r\nabc\r\n0\r\n\r\n",
		"hex prefix":       "0x3\r\nabc\r\n0\r\n\r\n",
		"negative":         "-3\r\nabc\r\n0\r\n\r\n",
		"overflow":         "ffffffffffffffff1\r\nabc\r\n0\r\n\r\n",
		"longer than said": "3\r\nabcdef\r\n0\r\n\r\n",
		"bare LF":          "3\nabc\n0\n\n",
		"long line":        strings.Repeat("0", 100) + "3\r\nabc\r\n0\r\n\r\n",
	}
}
