package policy_test

import (
	"fmt"

	"agentbox/policy"
)

// A rule has methods, a scheme, a host, ports and a path; only the host is needed.
func ExampleParseRule() {
	for _, s := range []string{"API.example.com.", "*.cdn.example:8443", "GET,HEAD https://example.com/v1/**", "10.0.0.0/8:5432", "exa mple"} {
		r, err := policy.ParseRule(s)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(r, "needs the inside of TLS:", r.NeedsInspection())
	}
	// Output:
	// api.example.com needs the inside of TLS: false
	// *.cdn.example:8443 needs the inside of TLS: false
	// GET,HEAD example.com:443/v1/** needs the inside of TLS: true
	// [10.0.0.0/8]:5432 needs the inside of TLS: false
	// error: "EXA" is not an HTTP method
}

// A box's policy is composed of what the organisation, the user and the repository say. Deny wins,
// and what no rule allows is denied.
func ExamplePolicy_Decide() {
	user, err := policy.ParseFile("user.yaml", []byte("allow: ['GET https://api.example.com/v1/**']\ndeny: [evil.example.com]\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	repository, err := policy.ParseFile("rules.yaml", []byte("preset: strict\nallow: ['*.example.com']\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := policy.New(policy.Compose(policy.Sources{User: []policy.File{user}, Repository: repository}), nil)
	for _, url := range []string{"https://api.example.com/v1/users", "https://evil.example.com/", "https://example.org/"} {
		flow, err := policy.ParseFlow(url, "GET")
		if err != nil {
			fmt.Println(err)
			return
		}
		v := p.Decide(flow)
		fmt.Printf("%s: %t, %s\n", url, v.Allow, v.Reason)
	}
	// Output:
	// https://api.example.com/v1/users: true, allowed by the user's rule "GET api.example.com:443/v1/**"
	// https://evil.example.com/: false, denied by the user's rule "evil.example.com"
	// https://example.org/: false, no rule allows it
}
