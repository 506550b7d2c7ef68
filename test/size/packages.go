package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/larder-dev/larder"

type group struct {
	name  string
	limit int // in lines; 0 for no limit
	has   func(p *goPackage) bool
}

var groups = []group{
	{"library: what an import reaches, page assets too", 53_000, func(p *goPackage) bool { return p.reached }},
	{"store, with what is inside it", 0, func(p *goPackage) bool { return below(p.dir, "store") && p.reached }},
	{"what only the command line imports", 0, func(p *goPackage) bool { return !p.reached && !p.forTests }},
	{"bench", 0, func(p *goPackage) bool { return below(p.dir, "bench") }},
	{"what only tests and bench import", 0, func(p *goPackage) bool { return p.forTests && !below(p.dir, "bench") }},
}

// trees are the directories whose packages are counted. Examples and tests are not among them.
var trees = []string{
	"entry", "codec", "store", "fifo", "reflector", "informer", "snapshot", "seed", "metrics", "serve", "cmd", "internal",
	"bench",
}

func isLibrary(dir string) bool {
	return !below(dir, "cmd") && !below(dir, "internal") && !below(dir, "bench")
}

func below(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

// goPackage is the code of one directory, for all platforms, without tests.
type goPackage struct {
	dir         string // relative to the repository's root, with slashes
	name        string
	lines       int // including embedded files
	importLines int
	files       map[string]*ast.File // by file name
	fset        *token.FileSet
	// imports are the directories of the imported packages of the module.
	imports []string
	// forTests is true if only tests and bench import the package.
	forTests bool
	// reached is true if users can import the package, or if a package that they can import depends on it.
	reached bool
	types   []goType
	// declared are the package's functions, types and methods; a method is Type.Method.
	declared []string
	// looksLikeObject are the package's struct types with a key and content, as directory.Name.
	looksLikeObject []string
	// options counts the struct types named Options. backoffs counts the types named Backoff and the literals of
	// wait.Backoff.
	options, backoffs int
	// exported counts the package's exported names, members the exported methods and fields of its exported types.
	exported, members int
}

// goType is a type with its own methods and fields. An embedded type counts as one field.
type goType struct {
	name            string // including the package's directory
	methods, fields int
}

func (p *goPackage) library() bool { return isLibrary(p.dir) }

// inside reports whether the package belongs to the command line or to the module's internal tree.
func (p *goPackage) inside() bool { return below(p.dir, "cmd") || below(p.dir, "internal") }

func (p *goPackage) public() bool {
	return p.library() && p.name != "main" && !strings.Contains("/"+p.dir+"/", "/internal/")
}

func readPackages(root string) ([]*goPackage, error) {
	var all []*goPackage
	for _, tree := range trees {
		top := filepath.Join(root, tree)
		if _, err := os.Stat(top); os.IsNotExist(err) {
			continue
		}
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || !d.IsDir():
				return err
			case d.Name() == "testdata" || d.Name() == "results":
				return filepath.SkipDir
			}
			p, err := readPackage(root, path)
			if err == nil && len(p.files) > 0 {
				all = append(all, p)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	reached := needs(all, (*goPackage).public)
	needed := needs(all, func(p *goPackage) bool { return p.name == "main" && !below(p.dir, "bench") || p.public() })
	for _, p := range all {
		p.reached, p.forTests = reached[p.dir], !needed[p.dir]
	}
	return all, nil
}

// needs returns the directories of the packages with a property, and of their dependencies in this module.
func needs(all []*goPackage, property func(*goPackage) bool) map[string]bool {
	needed, byDir := map[string]bool{}, map[string]*goPackage{}
	for _, p := range all {
		byDir[p.dir] = p
	}
	var need func(dir string)
	need = func(dir string) {
		if p := byDir[dir]; p != nil && !needed[dir] {
			needed[dir] = true
			for _, i := range p.imports {
				need(i)
			}
		}
	}
	for _, p := range all {
		if property(p) {
			need(p.dir)
		}
	}
	return needed
}

func readPackage(root, path string) (*goPackage, error) {
	dir, err := filepath.Rel(root, path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	p := &goPackage{dir: filepath.ToSlash(dir), files: map[string]*ast.File{}, fset: token.NewFileSet()}
	for _, e := range entries {
		if e.IsDir() && e.Name() == "static" {
			if err := p.countAssets(filepath.Join(path, e.Name())); err != nil {
				return nil, err
			}
		}
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		name := filepath.Join(path, e.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, err
		}
		p.files[e.Name()], p.name = f, f.Name.Name
		p.lines += bytes.Count(text, []byte("\n"))
	}
	p.count()
	return p, nil
}

func (p *goPackage) countAssets(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		p.lines += bytes.Count(text, []byte("\n"))
		return err
	})
}

func (p *goPackage) count() {
	types := map[string]*goType{}
	typeOf := func(name string) *goType {
		if types[name] == nil {
			types[name] = &goType{name: p.dir + "." + name}
		}
		return types[name]
	}
	for _, f := range p.files {
		for _, spec := range f.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if dir, ours := strings.CutPrefix(path, modulePath+"/"); ours && !slices.Contains(p.imports, dir) {
				p.imports = append(p.imports, dir)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.CompositeLit); ok && nameOf(l.Type) == "Backoff" {
				p.backoffs++
			}
			return true
		})
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				p.countFunc(d, typeOf)
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					p.importLines += p.fset.Position(d.End()).Line - p.fset.Position(d.Pos()).Line + 1
				}
				p.countDecl(d, typeOf)
			}
		}
	}
	slices.Sort(p.imports)
	for _, t := range types {
		p.types = append(p.types, *t)
	}
}

func (p *goPackage) countFunc(d *ast.FuncDecl, typeOf func(string) *goType) {
	if d.Recv == nil {
		p.declared = append(p.declared, d.Name.Name)
		if d.Name.IsExported() {
			p.exported++
		}
		return
	}
	receiver := receiverName(d)
	p.declared = append(p.declared, receiver+"."+d.Name.Name)
	typeOf(receiver).methods++
	if d.Name.IsExported() && ast.IsExported(receiver) {
		p.members++
	}
}

func (p *goPackage) countDecl(d *ast.GenDecl, typeOf func(string) *goType) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					p.exported++
				}
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() {
				p.exported++
			}
			p.countType(s, typeOf)
		}
	}
}

func (p *goPackage) countType(s *ast.TypeSpec, typeOf func(string) *goType) {
	var list *ast.FieldList
	p.declared = append(p.declared, s.Name.Name)
	if s.Name.Name == "Backoff" {
		p.backoffs++
	}
	t := typeOf(s.Name.Name)
	counter := &t.fields
	switch x := s.Type.(type) {
	case *ast.StructType:
		list = x.Fields
		if looksLikeObject(list) {
			p.looksLikeObject = append(p.looksLikeObject, t.name)
		}
		if strings.HasSuffix(strings.ToLower(s.Name.Name), "options") {
			p.options++
		}
	case *ast.InterfaceType:
		list, counter = x.Methods, &t.methods
	default:
		return
	}
	for _, field := range list.List {
		*counter += max(1, len(field.Names))
		for _, name := range field.Names {
			if name.IsExported() && s.Name.IsExported() {
				p.members++
			}
		}
	}
}

// looksLikeObject reports whether a struct has both an identity (key) and a content of an object, judged by its field
// names.
func looksLikeObject(fields *ast.FieldList) bool {
	identity, content := false, false
	for _, field := range fields.List {
		switch t := field.Type.(type) {
		case *ast.FuncType, *ast.MapType:
			continue
		case *ast.ArrayType:
			if nameOf(t.Elt) != "byte" {
				continue
			}
		}
		names := []string{}
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
		if len(names) == 0 {
			names = append(names, nameOf(field.Type))
		}
		for _, name := range names {
			switch strings.ToLower(name) {
			case "key", "ref", "uid", "objectref", "oldref", "newref":
				identity = true
			case "object", "obj", "payload", "body", "record", "entry", "header", "old", "new", "encoded", "undecoded", "state",
				"type", "delta", "leftout", "change", "resourceversion", "seq":
				content = true
			}
		}
	}
	return identity && content
}

func nameOf(t ast.Expr) string {
	switch x := t.(type) {
	case *ast.StarExpr:
		return nameOf(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}

func receiverName(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

func largest(packages []*goPackage, n int) []goType {
	var all []goType
	for _, p := range packages {
		if !below(p.dir, "bench") {
			all = append(all, p.types...)
		}
	}
	slices.SortFunc(all, func(a, b goType) int {
		return cmp.Or(cmp.Compare(b.methods+b.fields, a.methods+a.fields), cmp.Compare(a.name, b.name))
	})
	return all[:min(n, len(all))]
}
