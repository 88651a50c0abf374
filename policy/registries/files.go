package registries

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strings"

	"agentbox/agentbox"
	"agentbox/policy"
)

// Some indexes keep the files of packages on other hosts and link to them. This machine asks the
// index for those hosts, about one package that belongs to the ecosystem itself: what a box asks,
// and what the author of any other package writes, has no influence. A host that is learned this
// way may only be read from, and only files with the ecosystem's names.
//
// ecosystem is how to ask an index of a kind, and the names of the files of its packages.
type ecosystem struct {
	ask    string // what is asked, below the index's URL
	accept string // the media type that is asked for
	links  func(answer []byte) []string
	files  []string // patterns of paths
}

// ecosystems are those whose indexes keep files elsewhere. The package that is asked about is the
// ecosystem's own tool; Cargo's index has a file that is valid for all packages.
var ecosystems = map[string]ecosystem{
	"pip":   {"pip/", "application/vnd.pypi.simple.v1+json, text/html;q=0.5", simpleLinks, []string{"/**.whl", "/**.whl.metadata", "/**.tar.gz", "/**.tar.gz.metadata", "/**.zip"}},
	"npm":   {"npm/latest", "application/json", tarballLinks, []string{"/**.tgz"}},
	"cargo": {"config.json", "application/json", downloadLinks, []string{"/**.crate", "/**/download"}},
}

// Bounds of what is asked and learned: an index is on this machine's list, but what it answers
// opens hosts.
const (
	maxIndexes = 8 // that are asked
	maxHosts   = 4 // that are learned of each
)

// mentionedURL is a URL in a tool's output or a file; from is as Found.From.
type mentionedURL struct{ from, url string }

// addLinkedHosts adds the hosts on which the mentioned indexes keep files.
//
// find-links are pages of files, not indexes. Of Cargo's two kinds, only the sparse one can be
// asked.
func (c *collector) addLinkedHosts(ctx context.Context, m Machine, mentions []mentionedURL) {
	var asked []string
	for _, mentioned := range mentions {
		kind, _, _ := strings.Cut(mentioned.from, ":")
		e, known := ecosystems[kind]
		index := strings.TrimPrefix(mentioned.url, "sparse+")
		sparse := index != mentioned.url
		if !known || kind == "cargo" && !sparse || strings.Contains(mentioned.from, "find-links") || slices.Contains(asked, index) || len(asked) == maxIndexes {
			continue
		}
		asked = append(asked, index)
		c.addFileHosts(ctx, m, kind+": files of ", index, e)
	}
}

// addFileHosts asks one index and adds rules for the hosts that its answer links to: names only,
// over TLS, and not the index's own, which is allowed already.
func (c *collector) addFileHosts(ctx context.Context, m Machine, from, index string, e ecosystem) {
	base, err := url.Parse(index)
	if err != nil || m.Get == nil {
		return
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/" + e.ask
	answer, err := m.Get(ctx, base.String(), e.accept)
	c.timedOut = c.timedOut || isTimeout(err)
	if err != nil {
		return
	}
	var hosts []string
	for _, link := range e.links(answer) {
		u, err := base.Parse(link)
		if err != nil || u.Scheme != "https" || u.Hostname() == base.Hostname() {
			continue
		}
		name, err := policy.CanonicalName(u.Hostname())
		if host := name + portOf(u); err == nil && !slices.Contains(hosts, host) && len(hosts) < maxHosts {
			hosts = append(hosts, host)
		}
	}
	for _, host := range hosts {
		for _, pattern := range e.files {
			c.addRule(from+base.Hostname(), "GET,HEAD https://"+host+pattern)
		}
	}
}

// href finds links in the older form of Python's simple API, a page of HTML.
var href = agentbox.Pattern(`(?i)href\s*=\s*["']([^"'#]+)`)

// simpleLinks parses a page of Python's simple API, in either form.
func simpleLinks(answer []byte) []string {
	var page struct {
		Files []struct {
			URL string `json:"url"`
		} `json:"files"`
	}
	var links []string
	if json.Unmarshal(answer, &page) == nil {
		for _, f := range page.Files {
			links = append(links, f.URL)
		}
		return links
	}
	for _, found := range href().FindAllSubmatch(answer, -1) {
		links = append(links, string(found[1]))
	}
	return slices.DeleteFunc(links, func(s string) bool { // a page may link to its documentation too
		return !slices.Contains([]string{".whl", ".gz", ".zip"}, path.Ext(s))
	})
}

func tarballLinks(answer []byte) []string {
	var version struct {
		Dist struct {
			Tarball string `json:"tarball"`
		} `json:"dist"`
	}
	if json.Unmarshal(answer, &version) != nil {
		return nil
	}
	return []string{version.Dist.Tarball}
}

// downloadLinks parses the config of a sparse index, where Cargo fills in what is in braces.
func downloadLinks(answer []byte) []string {
	var config struct {
		Download string `json:"dl"`
	}
	if json.Unmarshal(answer, &config) != nil {
		return nil
	}
	before, _, _ := strings.Cut(config.Download, "{")
	return []string{before}
}
