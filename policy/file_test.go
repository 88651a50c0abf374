package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestParseFile(t *testing.T) {
	f, err := ParseFile("p.yaml", []byte("preset: strict\nallow:\n  - Example.com.\n  - GET https://api.example/v1/**\ndeny: evil.example\nprivate: [10.0.0.5:5432]\n"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseFile("p.yaml", f.Encode("ours\ntwo lines"))
	if err != nil || len(Plan(f, again, Balanced)) != 0 || again.Preset != Strict || !again.HasAllow || !again.HasPrivate {
		t.Errorf("%+v is written and read as %+v, %v", f, again, err)
	}
	if len(f.Allow) != 2 || f.Allow[0].String() != "example.com" || f.Deny[0].String() != "evil.example" || f.Private[0].String() != "[10.0.0.5]:5432" {
		t.Errorf("%+v", f)
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "allow:\n"} {
		if f, err := ParseFile("p.yaml", []byte(empty)); err != nil || len(f.Allow) != 0 {
			t.Errorf("%q: %+v, %v", empty, f, err)
		}
	}
}

func TestParseFileNamesEveryProblem(t *testing.T) {
	_, err := ParseFile("p.yaml", []byte("preset: stricts\nalow: [a.example]\ndeny:\n  - exa mple/..\n  - {host: x}\nallow: [*x]\n"))
	if err == nil || !strings.Contains(err.Error(), "not valid YAML") {
		t.Errorf("%v", err)
	}
	_, err = ParseFile("p.yaml", []byte("preset: stricts\nalow: [a.example]\ndeny:\n  - a.example/..\n  - {host: x}\nprivate: ['*']\npreset: open\n"))
	want := []string{
		"p.yaml:1: preset: unknown value `stricts`: did you mean `strict`?", "p.yaml:2: unknown key `alow`: did you mean `allow`?",
		"p.yaml:4: deny: \"/..\" is not a path pattern: write \"/\"", "p.yaml:5: deny: a rule is one line of text, as example.com or \"GET https://example.com/v1/**\"",
		"p.yaml:6: private: name the hosts: * would open every private network this machine reaches", "p.yaml:7: key `preset` appears twice, first on line 1",
	}
	if err == nil || !slices.Equal(strings.Split(err.Error(), "\n"), want) {
		t.Errorf("problems:\n%v\nwant:\n%s", err, strings.Join(want, "\n"))
	}
}

func TestPlan(t *testing.T) {
	from := File{Preset: Balanced, Allow: rules(t, "a.example", "b.example"), Deny: rules(t, "c.example")}
	to := File{Allow: rules(t, "a.example", "d.example"), Private: rules(t, "10.0.0.1")}
	var got []string
	for _, c := range Plan(from, to, Balanced) {
		mark := ""
		if c.Widens {
			mark = " wider"
		}
		got = append(got, c.String()+mark)
	}
	want := []string{"- allow b.example", "+ allow d.example wider", "- deny c.example wider", "+ private 10.0.0.1 wider"}
	if !slices.Equal(got, want) {
		t.Errorf("plan %q, want %q", got, want)
	}
	if p := Plan(File{}, File{Preset: Strict, Deny: rules(t, "x.example")}, Balanced); IsWider(p) || len(p) != 3 {
		t.Errorf("narrowing: %v", p)
	}
	if p := Plan(File{Preset: Strict}, File{}, Balanced); !IsWider(p) {
		t.Errorf("leaving out a preset: %v", p)
	}
}

func TestCompose(t *testing.T) {
	allowed := func(s Sources, f string) bool { return New(Compose(s), nil).Decide(flow(t, f)).Allow }
	machine := Layer{Allow: rules(t, "registry.example")}
	for _, c := range []struct {
		name    string
		s       Sources
		yes, no string
	}{
		{"by default", Sources{Machine: machine}, "registry.example:443", "other.example:443"},
		{"strict", Sources{Machine: machine, UserPreset: Strict, User: []File{{Allow: rules(t, "mine.example")}}}, "mine.example:443", "registry.example:443"},
		{"offline, whatever is allowed", Sources{UserPreset: Offline, User: []File{{Allow: rules(t, "mine.example"), Private: rules(t, "host.agentbox.internal:80")}}}, "", "mine.example:443,host.agentbox.internal:80"},
		{"open", Sources{Repository: File{Preset: Open}}, "other.example:443", "10.0.0.1:80"},
		{"the user's preset over the repository's", Sources{Repository: File{Preset: Open}, UserPreset: Strict}, "", "other.example:443"},
		{"an organisation that lists", Sources{Repository: File{Preset: Open}, Organisation: []File{{HasAllow: true, Allow: rules(t, "*.corp.example")}}}, "a.corp.example:443", "other.example:443"},
		{"an organisation that lists nothing", Sources{Repository: File{Preset: Open}, Organisation: []File{{HasAllow: true}}}, "", "other.example:443"},
		{"an organisation's preset", Sources{UserPreset: Open, Organisation: []File{{Preset: Balanced}}, Machine: machine}, "registry.example:443", "other.example:443"},
		{"an organisation's wide preset widens nothing", Sources{UserPreset: Strict, Organisation: []File{{Preset: Open}}}, "", "other.example:443"},
		{"an organisation that denies", Sources{UserPreset: Open, Organisation: []File{{Deny: rules(t, "evil.example")}}, User: []File{{Allow: rules(t, "evil.example")}}}, "other.example:443", "evil.example:443"},
		{"an organisation that bounds private hosts", Sources{UserPreset: Open, Organisation: []File{{HasPrivate: true, Private: rules(t, "10.0.0.1")}}, User: []File{{Private: rules(t, "10.0.0.0/8")}}}, "10.0.0.1:443,other.example:443", "10.0.0.2:443"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for f := range strings.SplitSeq(c.yes, ",") {
				if c.yes != "" && !allowed(c.s, f) {
					t.Errorf("%s is denied", f)
				}
			}
			for f := range strings.SplitSeq(c.no, ",") {
				if c.no != "" && allowed(c.s, f) {
					t.Errorf("%s is allowed", f)
				}
			}
		})
	}
}

func FuzzPolicyFile(f *testing.F) {
	for _, s := range []string{
		"preset: strict\nallow:\n  - example.com\ndeny: evil.example\nprivate: [10.0.0.5:5432]\n", "allow: [\"GET https://a.example/x/**\"]", "a: &a [*a]", "allow: [[]]",
		"allow: {a: b}", "---\n---\n", "\t", "allow: ['udp://*', '*', '[::1]:80']", "deny: ['a.example\\0']", "preset: [x]",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := ParseFile("p", b)
		if err != nil {
			return
		}
		again, err := ParseFile("p", file.Encode(""))
		if err != nil || len(Plan(file, again, Balanced)) != 0 {
			t.Errorf("%q is written as %q: %v", b, file.Encode(""), err)
		}
		New(Compose(Sources{Repository: file}), nil).Decide(Flow{Proto: HTTP, Name: "a.example", Port: 443, Method: "GET", Path: "/"})
	})
}
