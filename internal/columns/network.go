package columns

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shown is the maximum number of addresses, ports or host names in a cell.
const shown = 3

var services = kind{
	names: []string{"Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"},
	cells: func(o object, now time.Time) []any {
		ip := none
		if ips := o.texts("spec", "clusterIPs"); len(ips) > 0 {
			ip = ips[0]
		}
		return []any{
			o.name(), o.text("spec", "type"), ip, externalIP(o), or(servicePorts(o), none), o.age(now),
			formatLabels(o.labels("spec", "selector")),
		}
	},
}

func externalIP(o object) string {
	given := strings.Join(o.texts("spec", "externalIPs"), ",")
	switch o.text("spec", "type") {
	case "ClusterIP", "NodePort":
		return or(given, none)
	case "ExternalName":
		return o.text("spec", "externalName")
	case "LoadBalancer":
		balancer := balancers(o)
		if balancer != "" && given != "" {
			return balancer + "," + given
		}
		return or(balancer+given, "<pending>")
	}
	return unknown
}

func balancers(o object) string {
	var all []string
	for _, in := range o.list("status", "loadBalancer", "ingress") {
		if address := or(in.text("ip"), in.text("hostname")); address != "" {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func servicePorts(o object) string {
	var all []string
	for _, p := range o.list("spec", "ports") {
		port := strconv.FormatInt(p.number("port"), 10)
		if node := p.number("nodePort"); node > 0 {
			port += ":" + strconv.FormatInt(node, 10)
		}
		all = append(all, port+"/"+p.text("protocol"))
	}
	return strings.Join(all, ",")
}

var endpoints = kind{
	names: []string{"Name", "Endpoints", "Age"},
	cells: func(o object, now time.Time) []any {
		var all []string
		for _, subset := range o.list("subsets") {
			ports := subset.list("ports")
			for _, p := range ports {
				for _, a := range subset.list("addresses") {
					all = append(all, net.JoinHostPort(a.text("ip"), strconv.FormatInt(p.number("port"), 10)))
				}
			}
			if len(ports) > 0 {
				continue
			}
			for _, a := range subset.list("addresses") {
				all = append(all, a.text("ip"))
			}
		}
		missing := "" // kubectl leaves the cell empty if there are subsets without addresses
		if o.size("subsets") == 0 {
			missing = none
		}
		return []any{o.name(), few(all, shown, missing), o.age(now)}
	},
}

var endpointSlices = kind{
	names: []string{"Name", "AddressType", "Ports", "Endpoints", "Age"},
	cells: func(o object, now time.Time) []any {
		var ports, addresses []string
		for _, p := range o.list("ports") {
			// kubectl shows the port's number; if that is missing the port's name, and if both are missing an asterisk.
			ports = append(ports, p.scalar(p.scalar("*", "name"), "port"))
		}
		for _, e := range o.list("endpoints") {
			addresses = append(addresses, e.texts("addresses")...)
		}
		return []any{o.name(), o.text("addressType"), few(ports, shown, unset), few(addresses, shown, unset), o.age(now)}
	},
}

var ingresses = kind{
	names: []string{"Name", "Class", "Hosts", "Address", "Ports", "Age"},
	cells: func(o object, now time.Time) []any {
		ports := "80"
		if o.size("spec", "tls") > 0 {
			ports = "80, 443"
		}
		return []any{o.name(), o.scalar(none, "spec", "ingressClassName"), hosts(o), balancers(o), ports, o.age(now)}
	},
}

// hosts returns the first host names of an Ingress's rules, and the number of further rules. As in kubectl, that number
// includes rules without a host.
func hosts(o object) string {
	rules := o.list("spec", "rules")
	var first []string
	for _, r := range rules {
		if len(first) == shown {
			return fmt.Sprintf("%s + %d more...", strings.Join(first, ","), len(rules)-shown)
		}
		if host := r.text("host"); host != "" {
			first = append(first, host)
		}
	}
	return or(strings.Join(first, ","), "*")
}

var ingressClasses = kind{
	names: []string{"Name", "Controller", "Parameters", "Age"},
	cells: func(o object, now time.Time) []any {
		parameters := none
		if p := o.child("spec", "parameters"); p != nil {
			parameters = p.text("kind")
			if p.has("apiGroup") {
				parameters += "." + p.text("apiGroup")
			}
			parameters += "/" + p.text("name")
		}
		return []any{nameOrDefault(o, "ingressclass.kubernetes.io/is-default-class"), o.text("spec", "controller"),
			parameters, o.age(now)}
	},
}

// nameOrDefault returns the object's name, followed by (default) if one of the annotations is "true".
func nameOrDefault(o object, annotations ...string) string {
	for _, a := range annotations {
		if value, _ := o.annotation(a); value == "true" {
			return o.name() + " (default)"
		}
	}
	return o.name()
}

var serviceCIDRs = kind{
	names: []string{"Name", "CIDRs", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), strings.Join(o.texts("spec", "cidrs"), ","), o.age(now)}
	},
}

// ipAddresses is the table of IPAddresses. kube-apiserver sends an extra cell with the age, which no printer shows.
var ipAddresses = kind{
	names: []string{"Name", "ParentRef"},
	cells: func(o object, now time.Time) []any {
		parent := none
		if ref := o.child("spec", "parentRef"); ref != nil {
			gr := schema.GroupResource{Group: ref.text("group"), Resource: ref.text("resource")}
			parent = strings.ToLower(gr.String())
			if namespace := ref.text("namespace"); namespace != "" {
				parent += "/" + namespace
			}
			parent += "/" + ref.text("name")
		}
		return []any{o.name(), parent, o.age(now)}
	},
}

var networkPolicies = kind{
	names: []string{"Name", "Pod-Selector", "Age"},
	cells: func(o object, now time.Time) []any {
		return []any{o.name(), o.selector("spec", "podSelector"), o.age(now)}
	},
}
