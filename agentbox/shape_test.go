package agentbox

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maxMethods is how many methods a type may have. A type with more does several things, which
// should be types of their own.
const maxMethods = 70

// manyMethods lists the types that may have more, each with a reason.
var manyMethods = map[string]string{
	"agentbox/cli.app": "one method for each verb of the command line, and nothing kept between them",
}

// TestNoTypeHasTooManyMethods counts the methods of every type in all non-test files of its
// package. It also fails for an exception that is no longer needed.
func TestNoTypeHasTooManyMethods(t *testing.T) {
	methods := countMethods(t)
	if len(methods) < 300 {
		t.Fatalf("found %d types with methods", len(methods))
	}
	for name, n := range methods {
		if n > maxMethods && manyMethods[name] == "" {
			t.Errorf("%s has %d methods, and may have %d", name, n, maxMethods)
		}
	}
	for name := range manyMethods {
		if methods[name] <= maxMethods {
			t.Errorf("%s has %d methods: it needs no exception", name, methods[name])
		}
	}
}

// otherReceivers are packages in which a receiver may still have the letter of a type's former name.
var otherReceivers = []string{"tools/lab"}

// A receiver begins with the letter of its type, so that a reader knows what it is.
func TestReceiversBeginLikeTheirType(t *testing.T) {
	looked := 0
	eachMethod(t, func(pkg string, fn *ast.FuncDecl) {
		typ := receiver(fn.Recv.List[0].Type)
		if names := fn.Recv.List[0].Names; len(names) > 0 && !slices.ContainsFunc(otherReceivers, func(p string) bool { return strings.HasPrefix(pkg, p) }) {
			if looked++; names[0].Name != "_" && !strings.EqualFold(names[0].Name[:1], typ[:1]) {
				t.Errorf("%s: the receiver of %s.%s is %s", pkg, typ, fn.Name.Name, names[0].Name)
			}
		}
	})
	if looked < 1000 {
		t.Errorf("looked at %d methods", looked)
	}
}

// countMethods returns the number of methods of each type, named by the directory of its package.
func countMethods(t *testing.T) map[string]int {
	t.Helper()
	methods := map[string]int{}
	eachMethod(t, func(pkg string, fn *ast.FuncDecl) { methods[pkg+"."+receiver(fn.Recv.List[0].Type)]++ })
	return methods
}

// eachMethod calls f with every method of the non-test files of each package.
func eachMethod(t *testing.T, f func(pkg string, fn *ast.FuncDecl)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || path == filepath.Join("..", "build")):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				f(pkg, fn)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// receiver returns the name of a method's type, without pointer and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
