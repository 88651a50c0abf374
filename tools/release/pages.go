package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	ucli "github.com/urfave/cli/v3"

	"agentbox/agentbox/cli"
)

// documents are the files beside the program: man pages and completions, made from the commands,
// what a user should read, and the licences of what is linked.
func (r *release) documents(parts []part) ([]file, error) {
	var all []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		b, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, b, 0o644})
	}
	licences, err := licences(parts)
	if err != nil {
		return nil, err
	}
	all = append(all, file{"LICENSES-OF-PARTS", licences, 0o644})
	root := cli.Commands()
	page, err := r.page(root, root.Commands, "")
	if err != nil {
		return nil, err
	}
	all = append(all, page)
	for _, cmd := range root.Commands {
		if cmd.Hidden {
			continue
		}
		if page, err = r.page(cmd, descendants(cmd, ""), root.Name+"-"); err != nil {
			return nil, err
		}
		all = append(all, page)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := r.completion(shell)
		if err != nil {
			return nil, err
		}
		all = append(all, file{"completions/agentbox." + shell, script, 0o644})
	}
	return all, nil
}

// completion is what the program prints for a shell.
func (r *release) completion(shell string) ([]byte, error) {
	f, err := os.CreateTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if code := cli.Main([]string{"agentbox", "completion", shell}, os.Stdin, f, os.Stderr); code != 0 {
		return nil, os.ErrInvalid
	}
	return os.ReadFile(f.Name())
}

// descendants are the subcommands of a command with the whole of their names.
func descendants(cmd *ucli.Command, before string) []*ucli.Command {
	var all []*ucli.Command
	for _, sub := range cmd.Commands {
		if sub.Hidden {
			continue
		}
		named := *sub
		named.Name = before + sub.Name
		all = append(append(all, &named), descendants(sub, named.Name+" ")...)
	}
	return all
}

// manual is a man page in Markdown.
var manual = template.Must(template.New("").Funcs(template.FuncMap{"text": text, "flag": flagText, "usage": flagUsage}).Parse(
	`% {{.Title}} 1 "{{.Date}}" "agentbox {{.Version}}" "agentbox"

# NAME

{{.Title}} - {{text .Usage}}

# SYNOPSIS

**{{.Called}}** {{if and .Subs (not .Arguments)}}COMMAND{{else}}{{text .Arguments}}{{end}}
{{with .Command.Description}}
# DESCRIPTION

{{text .}}
{{end}}{{with .Command.VisibleFlags}}
# OPTIONS

{{range .}}{{flag .}}
: {{usage .}}

{{end}}{{end}}{{if .Subs}}# COMMANDS

{{range .Subs}}{{if not .Hidden}}## {{.Name}} {{text .ArgsUsage}}

{{text .Usage}}
{{with .Description}}
{{text .}}
{{end}}
{{range .VisibleFlags}}{{flag .}}
: {{usage .}}

{{end}}{{end}}{{end}}{{end}}# SEE ALSO

**agentbox(1)**, **agentbox-COMMAND(1)**
`))

func (r *release) page(cmd *ucli.Command, subs []*ucli.Command, before string) (file, error) {
	title := before + cmd.Name
	var b bytes.Buffer
	err := manual.Execute(&b, map[string]any{
		"Title": title, "Called": strings.Replace(title, "-", " ", 1), "Date": r.time.Format("2006-01-02"), "Version": r.version,
		"Usage": cmd.Usage, "Arguments": cmd.ArgsUsage, "Command": cmd, "Subs": subs,
	})
	return file{"man/" + title + ".1", md2man.Render(b.Bytes()), 0o644}, err
}

// text keeps what means something in Markdown as it is; code stays code.
func text(s string) string {
	parts := strings.Split(s, "`")
	for i := range parts {
		if i%2 == 0 {
			parts[i] = strings.NewReplacer("*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "|", `\|`).Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

func flagText(f ucli.Flag) string {
	var names []string
	for _, name := range f.Names() {
		dashes := "--"
		if len(name) == 1 {
			dashes = "-"
		}
		names = append(names, "**"+dashes+name+"**")
	}
	return strings.Join(names, ", ")
}

func flagUsage(f ucli.Flag) string {
	if of, ok := f.(ucli.DocGenerationFlag); ok {
		return text(of.GetUsage())
	}
	return ""
}
