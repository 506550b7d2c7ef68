package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// declared has the names of one directory's Go code, including tests.
type declared struct {
	dir   string
	names map[string]bool
	types map[string]*typeNames
	// idents are all identifiers of the directory's code, so that a comment may name a local variable and its method.
	idents map[string]bool
	files  []*ast.File
}

type typeNames struct {
	members map[string]bool
	// embedded are the embedded types, as Name or package.Name.
	embedded []string
	// open is true if the type has members that are not declared in this repository, such as the members of an alias.
	open bool
}

// placeholders are package names in comments that stand for any package, or for a package of the reader's program.
var placeholders = []string{"pkg", "package", "directory", "clientset", "externalversions"}

type index struct {
	fset *token.FileSet
	dirs []*declared
	// packages has the directories by package name. external has the names of other imported packages, and of the types
	// that the code takes from them.
	packages map[string][]*declared
	external map[string]bool
}

func readIndex(root string) (*index, error) {
	x := &index{fset: token.NewFileSet(), packages: map[string][]*declared{}, external: map[string]bool{}}
	byDir := map[string]*declared{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skipped, d.Name())):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		f, err := parser.ParseFile(x.fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(file)
		p := byDir[dir]
		if p == nil {
			p = &declared{dir: dir, names: map[string]bool{}, types: map[string]*typeNames{}, idents: map[string]bool{}}
			byDir[dir] = p
			x.dirs = append(x.dirs, p)
		}
		if name := strings.TrimSuffix(f.Name.Name, "_test"); !slices.Contains(x.packages[name], p) {
			x.packages[name] = append(x.packages[name], p)
		}
		p.read(f)
		return nil
	})
	for _, p := range x.dirs {
		for _, f := range p.files {
			x.readImports(f)
		}
	}
	return x, err
}

var versionSuffix = regexp.MustCompile(`^v\d+$`)

func (x *index) readImports(f *ast.File) {
	qualifiers := map[string]bool{}
	for _, i := range f.Imports {
		elements := strings.Split(strings.Trim(i.Path.Value, `"`), "/")
		name := elements[len(elements)-1]
		if versionSuffix.MatchString(name) && len(elements) > 1 {
			name = elements[len(elements)-2]
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		if qualifiers[name] = true; x.packages[name] == nil {
			x.external[name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := s.X.(*ast.Ident); ok && qualifiers[id.Name] && x.packages[id.Name] == nil {
				x.external[s.Sel.Name] = true
			}
		}
		return true
	})
}

func (p *declared) read(f *ast.File) {
	p.files = append(p.files, f)
	ast.Inspect(f, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			p.idents[id.Name] = true
		}
		return true
	})
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				p.names[d.Name.Name] = true
				continue
			}
			p.typeNamed(receiver(d.Recv.List[0].Type)).members[d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				p.readSpec(spec)
			}
		}
	}
}

func (p *declared) readSpec(spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			p.names[id.Name] = true
		}
	case *ast.TypeSpec:
		p.names[s.Name.Name] = true
		t := p.typeNamed(s.Name.Name)
		switch def := s.Type.(type) {
		case *ast.StructType:
			t.addFields(def.Fields)
		case *ast.InterfaceType:
			t.addFields(def.Methods)
		case *ast.Ident, *ast.SelectorExpr, *ast.IndexExpr, *ast.StarExpr:
			t.open = true
		}
	}
}

func (p *declared) typeNamed(name string) *typeNames {
	t := p.types[name]
	if t == nil {
		t = &typeNames{members: map[string]bool{}}
		p.types[name] = t
	}
	return t
}

func (t *typeNames) addFields(fields *ast.FieldList) {
	for _, f := range fields.List {
		for _, id := range f.Names {
			t.members[id.Name] = true
		}
		if len(f.Names) == 0 {
			name := receiver(f.Type)
			t.embedded = append(t.embedded, name)
			t.members[name[strings.LastIndexByte(name, '.')+1:]] = true
		}
	}
}

// receiver returns the name of a receiver's or an embedded field's type. A type of another package is qualified.
func receiver(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.SelectorExpr:
		return receiver(x.X) + "." + x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return "?"
}

// has reports whether the type name of p has the member, declared or promoted. known is false if p has no such type.
func (x *index) has(p *declared, name, member string) (has, known bool) {
	t := p.types[name]
	if t == nil {
		return false, false
	}
	if t.open || t.members[member] {
		return true, true
	}
	for _, e := range t.embedded {
		from, of := []*declared{p}, e
		if pkg, rest, qualified := strings.Cut(e, "."); qualified {
			from, of = x.packages[pkg], rest
		}
		external := true
		for _, q := range from {
			has, known := x.has(q, of, member)
			if has {
				return true, true
			}
			external = external && !known
		}
		if external {
			return true, true
		}
	}
	return false, true
}

// reference matches package.Name, Type.Member, and package.Type.Member.
var reference = regexp.MustCompile(`(?:^|[^\w./-])(?:([a-z]\w*)\.)?([A-Z]\w*)(?:\.([A-Za-z]\w*))?\b`)

var link = regexp.MustCompile(`(?:^|[ (])\[\*?([A-Z]\w*[a-z]\w*)\](?:[ ,.;)]|$)`)

// program matches quoted text, which may be the output of a program.
var program = regexp.MustCompile(`"[^"]*"`)

// goneNames returns a line for each name in a comment that the code does not declare.
func goneNames(root string) ([]string, error) {
	x, err := readIndex(root)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, p := range x.dirs {
		for _, f := range p.files {
			for _, group := range f.Comments {
				for _, l := range commentLines(x.fset, group) {
					for _, name := range x.gone(p, program.ReplaceAllString(l.text, "x")) {
						file, _ := filepath.Rel(root, x.fset.Position(group.Pos()).Filename)
						all = append(all, fmt.Sprintf("%s:%d: %s", filepath.ToSlash(file), l.number, name))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

func (x *index) gone(p *declared, text string) []string {
	var all []string
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		if !p.names[m[1]] {
			all = append(all, "["+m[1]+"]")
		}
	}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		qualifier, name, member := m[1], m[2], m[3]
		switch {
		case qualifier == "" && member == "":
		case qualifier == "":
			if !x.resolves(p, name, member) {
				all = append(all, name+"."+member)
			}
		case !x.qualified(p, qualifier, name, member):
			all = append(all, strings.TrimSuffix(qualifier+"."+name+"."+member, "."))
		}
	}
	return all
}

// resolves reports whether Type.Member exists, in p or in any other package. Names of other modules' types, with any
// member, and file names count as existing.
func (x *index) resolves(p *declared, name, member string) bool {
	if has, known := x.has(p, name, member); known {
		return has
	}
	lower := member[0] >= 'a' && member[0] <= 'z'
	if lower || x.external[name] || p.names[name] || p.hasField(name) { // a file, another module's type, or a variable
		return true
	}
	for _, q := range x.dirs {
		if has, _ := x.has(q, name, member); has {
			return true
		}
	}
	return false
}

func (p *declared) hasField(name string) bool {
	for _, t := range p.types {
		if t.members[name] {
			return true
		}
	}
	return false
}

// qualified reports whether package.Name, and its member if there is one, exists. Any name counts as existing in
// packages of other modules and in local variables.
func (x *index) qualified(p *declared, qualifier, name, member string) bool {
	if x.external[qualifier] || slices.Contains(placeholders, qualifier) {
		return true
	}
	if len(x.packages[qualifier]) == 0 {
		return p.idents[qualifier]
	}
	for _, q := range x.packages[qualifier] {
		if !q.names[name] {
			continue
		}
		if has, known := x.has(q, name, member); member == "" || has || !known {
			return true
		}
	}
	// A variable may have the name of a package, such as store.
	return x.resolvesVariable(p, qualifier, name)
}

// resolvesVariable reports whether the code of p uses a variable of this name, and some type of the repository has the
// member.
func (x *index) resolvesVariable(p *declared, variable, member string) bool {
	if !p.idents[variable] {
		return false
	}
	for _, f := range p.files {
		found := false
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if ok && s.Sel.Name == member {
				switch of := s.X.(type) {
				case *ast.Ident:
					found = found || of.Name == variable
				case *ast.SelectorExpr:
					found = found || of.Sel.Name == variable
				}
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}
