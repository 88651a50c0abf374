package agentbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages returns README, CHANGELOG and everything below docs/, by path from the root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root := os.DirFS("..")
	all := map[string]string{}
	read := func(name string) {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	read("README.md")
	read("CHANGELOG.md")
	err := fs.WalkDir(root, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			read(name)
		}
		return err
	})
	if err != nil || len(all) < 20 {
		t.Fatalf("found %d pages: %v", len(all), err)
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	block   = regexp.MustCompile("(?ms)^```.*?^```$")
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// Links within the documents must lead to an existing page and heading.
func TestDocumentLinks(t *testing.T) {
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for name, text := range all {
		anchors[name] = map[string]bool{}
		for _, m := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			slug := noSlug.ReplaceAllString(strings.ToLower(strings.TrimSpace(m[1])), "")
			anchors[name][strings.ReplaceAll(slug, " ", "-")] = true
		}
	}
	for name, text := range all {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			} else if anchor != "" && !anchors[target][anchor] {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	}
}

var (
	goFile   = regexp.MustCompile("`([a-z][A-Za-z0-9_./-]*\\.go)`")
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark|Example)[A-Z][A-Za-z0-9_]*)`")
	funcName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)[A-Za-z0-9_]*)`)
)

// Files and tests that a maintainers' page names must exist: a promise whose test was renamed or
// removed is a promise without a test. A page may name a file below agentbox/ without that
// directory, and further files in the same table cell by their base name alone.
func TestDocumentsNameFilesAndTestsThatExist(t *testing.T) {
	files, tests := sources(t)
	for name, text := range pages(t) {
		if name == "CHANGELOG.md" {
			continue
		}
		for _, m := range goFile.FindAllStringSubmatch(text, -1) {
			if !files[m[1]] {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}

var (
	joined  = regexp.MustCompile(`(?m)^func \(\w \w+\) .*filepath\.Join\((.*)\)`)
	literal = regexp.MustCompile(`"([^"]+)"`)
	remark  = regexp.MustCompile(`(?m)^//.*$`)
)

// Formats are described beside their decoders: each name of the home in a comment of home.go, and
// each field of box.json by a comment of its own.
func TestFormatsAreDescribedBesideTheirDecoders(t *testing.T) {
	files := goFiles(t)
	names := files["agentbox/home/home.go"]
	said := strings.Join(remark.FindAllString(names, -1), "\n")
	looked := 0
	for _, join := range joined.FindAllStringSubmatch(names, -1) {
		for _, name := range literal.FindAllStringSubmatch(join[1], -1) {
			if looked++; !strings.Contains(said, name[1]) {
				t.Errorf("no comment of home.go describes %s", name[1])
			}
		}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "record.go", files["agentbox/host/record.go"], parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if f, ok := n.(*ast.Field); ok && f.Tag != nil {
			if looked++; f.Doc.Text()+f.Comment.Text() == "" {
				t.Errorf("no comment describes the field %s of box.json", f.Tag.Value)
			}
		}
		return true
	})
	if looked < 60 {
		t.Errorf("looked for only %d names", looked)
	}
}

var (
	fileWithNames = regexp.MustCompile("`([a-z][A-Za-z0-9_./-]*\\.go)` \\(((?:`[^`]+`(?:, )?)+)\\)")
	quotedName    = regexp.MustCompile("`(?:\\w+\\.)?(\\w+)`")
)

// What a page names in parentheses after a file must be in that file, or a rename leaves readers
// with a word that they cannot find.
func TestDocumentsNameWhatTheirFilesHave(t *testing.T) {
	words := map[string]map[string]bool{} // by each suffix of a path
	word := regexp.MustCompile(`\w+`)
	for path, text := range goFiles(t) {
		found := map[string]bool{}
		for _, w := range word.FindAllString(text, -1) {
			found[w] = true
		}
		for end := path; end != ""; _, end, _ = strings.Cut(end, "/") {
			if words[end] == nil {
				words[end] = map[string]bool{}
			}
			maps.Copy(words[end], found)
		}
	}
	named := 0
	for page, text := range pages(t) {
		for _, m := range fileWithNames.FindAllStringSubmatch(text, -1) {
			for _, name := range quotedName.FindAllStringSubmatch(m[2], -1) {
				if named++; !words[m[1]][name[1]] {
					t.Errorf("%s says that %s has %s, which is not there", page, m[1], name[1])
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("the pages name only %d functions", named)
	}
}

// goFiles returns the text of every Go file, by its path from the root.
func goFiles(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "build"):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".go"):
			return nil
		}
		b, err := fs.ReadFile(root, name)
		all[name] = string(b)
		return err
	})
	if err != nil || len(all) < 500 {
		t.Fatalf("found %d files: %v", len(all), err)
	}
	return all
}

var (
	makeCall   = regexp.MustCompile("(?m)(?:^    |`)make ([a-z0-9-]+)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+(?: [a-z0-9-]+)*):`)
)

// A target of make that a page names must exist.
func TestDocumentsNameTargetsThatExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		for _, name := range strings.Fields(m[1]) {
			targets[name] = true
		}
	}
	named := 0
	for name, text := range pages(t) {
		for _, m := range makeCall.FindAllStringSubmatch(text, -1) {
			if named++; !targets[m[1]] {
				t.Errorf("%s names make %s, which is not there", name, m[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("the pages name only %d targets", named)
	}
}

// sources returns every Go file, by each suffix of its path, and every test.
func sources(t *testing.T) (files, tests map[string]bool) {
	t.Helper()
	files, tests = map[string]bool{}, map[string]bool{}
	for path, text := range goFiles(t) {
		for end := path; end != ""; _, end, _ = strings.Cut(end, "/") {
			files[end] = true
		}
		if !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "test/") {
			continue
		}
		for _, m := range funcName.FindAllStringSubmatch(text, -1) {
			tests[m[1]] = true
		}
	}
	if len(tests) < 500 {
		t.Fatalf("found %d tests", len(tests))
	}
	return files, tests
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+(?: // (.+))?$`) // in go.mod

// A direct dependency has to say what it is for.
func TestLibrariesSayWhatTheyAreFor(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	found := requirement.FindAllStringSubmatch(string(mod), -1)
	found = slices.DeleteFunc(found, func(m []string) bool { return m[2] == "indirect" })
	for _, m := range found {
		if len(m[2]) < 4 {
			t.Errorf("go.mod does not say what %s is for", m[1])
		}
	}
	if len(found) < 20 {
		t.Errorf("go.mod has %d requirements", len(found))
	}
}
