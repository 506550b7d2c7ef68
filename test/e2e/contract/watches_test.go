package contract

import "time"

func initialEventsRequests(k kind) (all []Request) {
	for _, rv := range []string{"-", "0", "{ancient}", k.old(), k.now(), "{future}", "abc"} {
		for _, send := range []string{"-", "true", "false", "x"} {
			for _, match := range []string{"-", "NotOlderThan", "Exact", "Bad"} {
				for _, bookmarks := range []string{"-", "true"} {
					r := get(k.all()).watch()
					for _, p := range [][2]string{{"resourceVersion", rv}, {"sendInitialEvents", send},
						{"resourceVersionMatch", match}, {"allowWatchBookmarks", bookmarks}} {
						if p[1] != "-" {
							r = r.with(p[0], p[1])
						}
					}
					all = append(all, r)
				}
			}
		}
	}
	return all
}

func watchRequests(k kind) (all []Request) {
	for _, rv := range []string{"", "0", k.old(), k.mid(), k.now(), "{future}"} {
		for _, labels := range []string{"", "app=web", "app!=web"} {
			r := get(k.all()).watch("resourceVersion", rv)
			if labels != "" {
				r = r.with("labelSelector", labels)
			}
			all = append(all, r)
		}
		all = append(all, get(k.in("lab")).watch("resourceVersion", rv),
			get(k.in("shop")).watch("resourceVersion", rv, "fieldSelector", "metadata.name=comes"))
	}
	streaming := func(r Request) Request {
		return r.watch("allowWatchBookmarks", "true", "resourceVersionMatch", "NotOlderThan", "sendInitialEvents", "true")
	}
	return append(all, streaming(get(k.all())), streaming(get(k.in("empty"))), streaming(get(k.all())).accept(typed),
		streaming(get(k.all())).accept(metadataOne), streaming(get(k.all(), "resourceVersion", k.now())),
		streaming(get(k.in("shop"), "fieldSelector", "metadata.name="+k.object)),
		Request{Method: "GET", Path: k.all(), Query: "watch=1", HangUp: time.Second},
		Request{Method: "GET", Path: k.all(), Query: query("watch", "1", "timeoutSeconds", "0", "resourceVersion", k.now()),
			HangUp: time.Second})
}
