package e2e

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// guarded is a test that does not always run.
type guarded struct {
	dir, name string
	whole     bool            // -short leaves out a part of it, or all
	variables map[string]bool // of the environment, without which it does not run
}

// chosen are the variables that say how a test runs, not whether.
var chosen = map[string]string{
	"AGENTBOX_CHAOS":           "how often something is killed",
	"AGENTBOX_CHAOS_KIND":      "in which kind of machine",
	"AGENTBOX_CHAOS_SEED":      "to repeat a run",
	"AGENTBOX_E2E_BIN":         "the program is made elsewhere",
	"AGENTBOX_E2E_EVERY_KIND":  "to try a script",
	"AGENTBOX_E2E_KIND":        "to try a kind",
	"AGENTBOX_E2E_PART":        "TestEachScriptBelongsToOnePart",
	"AGENTBOX_E2E_SEED":        "to keep images",
	"AGENTBOX_KVM_SCRIPTS":     "to try other scripts",
	"AGENTBOX_SIMULATED_NODES": "how large the simulated team is",
	"AGENTBOX_TEST_KERNEL":     "the kernel is made elsewhere",
}

// guardedTests finds in the sources every test which calls, itself or through functions of its
// package's tests, testing.Short or os.Getenv of a variable of ours. What TestMain reads makes the
// test binary another program, and concerns no test.
func guardedTests(t *testing.T) []guarded {
	t.Helper()
	var all []guarded
	for dir, p := range testPackages(t) {
		for name := range p.functions {
			g := guarded{dir: dir, name: name, variables: map[string]bool{}}
			if isTest(name) {
				p.follow(name, &g, map[string]bool{})
			}
			if g.whole || len(g.variables) > 0 {
				all = append(all, g)
			}
		}
	}
	return all
}

func isTest(name string) bool { return strings.HasPrefix(name, "Test") && name != "TestMain" }

// testPackages reads the tests of the repository, by directory.
func testPackages(t *testing.T) map[string]*testPackage {
	t.Helper()
	packages := map[string]*testPackage{}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && slices.Contains([]string{"testdata", "build", ".git"}, e.Name()) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		if packages[dir] == nil {
			packages[dir] = &testPackage{functions: map[string][]ast.Node{}, constants: map[string]string{}}
		}
		packages[dir].add(file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

// testPackage is the tests of a directory.
type testPackage struct {
	functions map[string][]ast.Node // and methods, by their names alone
	constants map[string]string
}

func (p *testPackage) add(file *ast.File) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				p.functions[d.Name.Name] = append(p.functions[d.Name.Name], d.Body)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				p.addConstants(s)
			}
		}
	}
}

func (p *testPackage) addConstants(s ast.Spec) {
	values, ok := s.(*ast.ValueSpec)
	if !ok {
		return
	}
	for i, name := range values.Names {
		if i < len(values.Values) {
			if text, ok := literal(values.Values[i]); ok {
				p.constants[name.Name] = text
			}
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	return constant.StringVal(constant.MakeFromLiteral(l.Value, l.Kind, 0)), true
}

// follow adds to g what a function and all that it names look at.
func (p *testPackage) follow(name string, g *guarded, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	for _, body := range p.functions[name] {
		ast.Inspect(body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				p.follow(n.Name, g, seen)
			case *ast.CallExpr:
				p.look(n, g)
			}
			return true
		})
	}
}

func (p *testPackage) look(call *ast.CallExpr, g *guarded) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	of, _ := f.X.(*ast.Ident)
	switch {
	case of == nil:
	case of.Name == "testing" && f.Sel.Name == "Short":
		g.whole = true
	case of.Name == "os" && (f.Sel.Name == "Getenv" || f.Sel.Name == "LookupEnv"):
		variable, ok := literal(call.Args[0])
		if name, isName := call.Args[0].(*ast.Ident); isName {
			variable, ok = p.constants[name.Name], true
		}
		if ok && strings.HasPrefix(variable, "AGENTBOX_") && chosen[variable] == "" {
			g.variables[variable] = true
		}
	}
}
