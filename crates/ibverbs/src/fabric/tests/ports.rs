//! How ports are used, as the settings say.

use super::{on, pair, settle};
use crate::VerbsError;
use crate::fabric::{Fabric, FabricSettings};
use crate::fake::ibv_mtu::{IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096};
use crate::fake::{Nature, adapters, net};
use crate::objects::PortSettings;

#[test]
fn connections_are_made_as_the_settings_say() {
    adapters(&[Nature::PLAIN; 2]);
    let ((mut a, there), (mut b, back)) = pair(|device| FabricSettings {
        port: PortSettings {
            gid_index: Some(1),
            partition: Some(0x8001),
            service_level: 3,
            traffic_class: 106,
            mtu: Some(1024),
        },
        ..on(device)
    });
    for told in net(|net| net.told()) {
        assert_eq!((told.pkey_index, told.mtu), (1, IBV_MTU_1024));
        let way = told.way;
        assert_eq!((way.sl, way.is_global), (3, 1));
        assert_eq!((way.grh.traffic_class, way.grh.sgid_index), (106, 1));
    }
    a.say(there, &[1; 4000]).expect("room");
    settle(&mut [&mut a, &mut b]);
    assert_eq!(b.from(back), [[1; 4000]]);
}

#[test]
fn infiniband_has_a_global_route_where_the_port_demands_it() {
    for port_flags in [0, 1] {
        adapters(
            &[Nature {
                infiniband: true,
                port_flags,
                ..Nature::PLAIN
            }; 2],
        );
        let _connected = pair(on);
        for told in net(|net| net.told()) {
            assert_eq!((told.way.is_global, told.mtu), (port_flags, IBV_MTU_4096));
        }
    }
}

#[test]
fn what_a_port_has_not_is_named_with_the_setting() {
    adapters(&[Nature::PLAIN]);
    let wrong = [
        (
            PortSettings {
                partition: Some(0x8002),
                ..PortSettings::default()
            },
            "port 1 of fake0 is in no partition 0x8002 (LIMIC_VERBS_PARTITION)",
        ),
        (
            PortSettings {
                gid_index: Some(9),
                ..PortSettings::default()
            },
            "port 1 of fake0 has no global identifier 9 (LIMIC_VERBS_GID_INDEX)",
        ),
    ];
    for (port, why) in wrong {
        let settings = FabricSettings {
            port,
            ..FabricSettings::DEFAULT
        };
        let error = Fabric::open(settings, 1, 2, Vec::new()).expect_err("it has not");
        assert!(matches!(error, VerbsError::Setting { .. }));
        assert!(error.to_string().starts_with(why), "{error}");
    }
}

#[test]
fn a_port_that_has_what_the_settings_ask_for_is_found() {
    adapters(&[Nature {
        ports: 2,
        ..Nature::PLAIN
    }]);
    let in_partition = |partition| {
        let port = PortSettings {
            partition: Some(partition),
            ..PortSettings::default()
        };
        let settings = FabricSettings {
            port,
            ..FabricSettings::DEFAULT
        };
        Fabric::open(settings, 1, 2, Vec::new())
    };
    in_partition(0x8002).expect("the second port is in it");
    let error = in_partition(0x8003).expect_err("no port is in it");
    assert!(matches!(error, VerbsError::Setting { .. }), "{error}");
}

/// The nearest adapter comes first, and the next one if its port is down.
#[test]
fn adapters_are_tried_in_the_order_that_is_asked_for() {
    adapters(&[Nature::PLAIN; 3]);
    let first_of = |order: &[&str]| {
        let settings = FabricSettings {
            order: order.iter().map(|&name| name.to_owned()).collect(),
            ..FabricSettings::DEFAULT
        };
        let fabric = Fabric::open(settings, 1, 2, Vec::new()).expect("the fabric opens");
        fabric.devices().collect::<Vec<_>>().join(",")
    };
    assert_eq!(first_of(&[]), "fake0");
    assert_eq!(first_of(&["fake2", "fake0"]), "fake2");
    assert_eq!(first_of(&["gone", "fake1"]), "fake1");
    net(|net| net.down = [2].into());
    assert_eq!(first_of(&["fake2", "fake1"]), "fake1");
}

#[test]
fn a_port_is_refused_whose_datagrams_are_too_short_for_greetings() {
    adapters(&[Nature {
        mtu: IBV_MTU_256,
        ..Nature::PLAIN
    }]);
    let with = |streams| {
        let settings = FabricSettings {
            streams,
            ..FabricSettings::DEFAULT
        };
        Fabric::open(settings, 1, 2, Vec::new())
    };
    with(4).expect("they fit");
    let error = with(5).expect_err("they do not fit");
    assert!(error.to_string().contains("LIMIC_VERBS_STREAMS"), "{error}");
}
