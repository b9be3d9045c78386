//! Compares sizes and offsets with the system's libfabric headers. Structures may be longer in
//! versions later than 1.17.

use core::mem::offset_of;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::process::Command;

use super::atomic::*;
use super::endpoint::*;
use super::entries::*;
use super::info::*;
use super::objects::*;
use super::peer::*;
use super::*;

/// One line of the C program, and the number that it has to print.
struct Fact {
    expression: String,
    value: u64,
}

macro_rules! facts {
    ($($type:ident { $($field:ident $(as $name:literal)?),* $(,)? })*) => {{
        let mut facts = Vec::new();
        $(
            facts.push(Fact {
                expression: format!("sizeof(struct {})", stringify!($type)),
                value: size_of::<$type>() as u64,
            });
            $(
                let name = [$($name,)? stringify!($field)][0];
                facts.push(Fact {
                    expression: format!("offsetof(struct {}, {name})", stringify!($type)),
                    value: offset_of!($type, $field) as u64,
                });
            )*
        )*
        facts
    }};
}

macro_rules! constants {
    ($($name:ident),* $(,)?) => {
        vec![$(Fact {
            expression: format!("(uint64_t) {}", stringify!($name)),
            value: $name as u64,
        }),*]
    };
}

fn structures() -> Vec<Fact> {
    let mut all = facts! {
        fid { fclass, context, ops }
        fi_context2 { internal }
        fi_ops { size, close, bind, control, ops_open, tostr, ops_set }
        fi_provider { version, fi_version, context, name, getinfo, fabric, cleanup }
        fi_tx_attr { caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass }
        fi_rx_attr { caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit }
        fi_fabric_attr { fabric, name, prov_name, prov_version, api_version }
        fi_info {
            next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr,
            ep_attr, domain_attr, fabric_attr, nic,
        }
        fi_cq_msg_entry { op_context, flags, len }
        fi_cq_tagged_entry { op_context, flags, len, buf, data, tag }
        fi_cq_attr { size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set }
        fi_cntr_attr { events, wait_obj, wait_set, flags }
        fi_eq_attr { size, flags, wait_obj, signaling_vector, wait_set }
        fi_eq_err_entry { fid, context, data, err, prov_errno, err_data, err_data_size }
        fi_poll_attr { flags }
        fi_av_attr { r#type as "type", rx_ctx_bits, count, ep_per_node, name, map_addr, flags }
        fid_fabric { fid, ops, api_version }
        fi_ops_fabric { size, domain, passive_ep, eq_open, wait_open, trywait, domain2 }
        fid_domain { fid, ops, mr }
        fi_ops_mr { size, reg, regv, regattr }
        fid_mr { fid, mem_desc, key }
        fid_av { fid, ops }
        fid_cq { fid, ops }
        fi_ops_cq { size, read, readfrom, readerr, sread, sreadfrom, signal, strerror }
        fid_cntr { fid, ops }
        fi_ops_cntr { size, read, readerr, add, set, wait, adderr, seterr }
        fid_eq { fid, ops }
        fi_ops_eq { size, read, readerr, write, sread, strerror }
        fid_poll { fid, ops }
        fi_ops_poll { size, poll, poll_add, poll_del }
        fid_ep { fid, ops, cm, msg, rma, tagged, atomic, collective }
        fi_ops_ep { size, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left }
        fi_ops_cm { size, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join }
        fi_ops_collective { size }
        fi_msg { msg_iov, desc, iov_count, addr, context, data }
        fi_msg_tagged { msg_iov, desc, iov_count, addr, tag, ignore, context, data }
        fi_rma_iov { addr, len, key }
        fi_msg_rma { msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, context, data }
        fi_ops_msg { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata }
        fi_ops_tagged { size, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata }
        fi_ops_rma { size, read, readv, readmsg, write, writev, writemsg, inject, writedata, injectdata }
        fi_ioc { addr, count }
        fi_rma_ioc { addr, count, key }
        fi_atomic_attr { count, size }
        fi_msg_atomic {
            msg_iov, desc, iov_count, addr, rma_iov, rma_iov_count, datatype, op, context, data,
        }
        fi_ops_atomic {
            size, write, writev, writemsg, inject, readwrite, readwritev, readwritemsg, compwrite, compwritev,
            compwritemsg, writevalid, readwritevalid, compwritevalid,
        }
    };
    // Structures that later versions make longer: what is here has to lie where it does there.
    all.extend(grown(facts! {
        fi_ep_attr {
            r#type as "type", protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size,
            max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key,
        }
        fi_domain_attr {
            domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size,
            cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx,
            max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass,
        }
        fi_cq_err_entry {
            op_context, flags, len, buf, data, tag, olen, err, prov_errno, err_data, err_data_size,
        }
        fi_mr_attr {
            mr_iov, iov_count, access, offset, requested_key, context, auth_key_size, auth_key, iface, device,
        }
        fi_ops_av { size, insert, insertsvc, insertsym, remove, lookup, straddr, av_set }
        fi_ops_domain {
            size, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open, stx_ctx, srx_ctx, query_atomic,
            query_collective, endpoint2,
        }
    }));
    all
}

/// The offsets alone.
fn grown(facts: Vec<Fact>) -> impl Iterator<Item = Fact> {
    let sizes = |fact: &Fact| !fact.expression.starts_with("sizeof");
    facts.into_iter().filter(sizes)
}

fn numbers() -> Vec<Fact> {
    use super::errno::*;
    let mut all = constants![
        FI_MSG,
        FI_RMA,
        FI_TAGGED,
        FI_ATOMIC,
        FI_READ,
        FI_WRITE,
        FI_RECV,
        FI_SEND,
        FI_REMOTE_READ,
        FI_REMOTE_WRITE,
        FI_MULTI_RECV,
        FI_REMOTE_CQ_DATA,
        FI_AV_USER_ID,
        FI_PEER,
        FI_LOCAL_COMM,
        FI_REMOTE_COMM,
        FI_RMA_EVENT,
        FI_SOURCE,
        FI_DIRECTED_RECV,
        FI_MORE,
        FI_PEEK,
        FI_COMPLETION,
        FI_INJECT,
        FI_INJECT_COMPLETE,
        FI_TRANSMIT_COMPLETE,
        FI_DELIVERY_COMPLETE,
        FI_MATCH_COMPLETE,
        FI_CLAIM,
        FI_DISCARD,
        FI_FETCH_ATOMIC,
        FI_COMPARE_ATOMIC,
        FI_SELECTIVE_COMPLETION,
        FI_EVENT,
        FI_SYNC_ERR,
        FI_AFFINITY,
        FI_SYMMETRIC,
        FI_ORDER_RAR,
        FI_ORDER_RAW,
        FI_ORDER_WAR,
        FI_ORDER_WAW,
        FI_ORDER_SAS,
        FI_ORDER_RMA_RAR,
        FI_ORDER_RMA_RAW,
        FI_ORDER_RMA_WAR,
        FI_ORDER_RMA_WAW,
        FI_ORDER_ATOMIC_RAR,
        FI_ORDER_ATOMIC_RAW,
        FI_ORDER_ATOMIC_WAR,
        FI_ORDER_ATOMIC_WAW,
        FI_CONTEXT2,
        FI_CONTEXT,
        FI_MR_BASIC,
        FI_MR_SCALABLE,
        FI_MR_LOCAL,
        FI_MR_VIRT_ADDR,
        FI_MR_ALLOCATED,
        FI_MR_PROV_KEY,
        FI_MR_RMA_EVENT,
        FI_MR_ENDPOINT,
        FI_AV_UNSPEC,
        FI_AV_TABLE,
        FI_PROGRESS_AUTO,
        FI_PROGRESS_MANUAL,
        FI_THREAD_UNSPEC,
        FI_THREAD_SAFE,
        FI_THREAD_DOMAIN,
        FI_RM_ENABLED,
        FI_EP_UNSPEC,
        FI_EP_RDM,
        FI_FORMAT_UNSPEC,
        FI_SOCKADDR,
        FI_SOCKADDR_IN,
        FI_SOCKADDR_IN6,
        FI_ADDR_STR,
        FI_NUMERICHOST,
        FI_CQ_FORMAT_UNSPEC,
        FI_CQ_FORMAT_CONTEXT,
        FI_CQ_FORMAT_MSG,
        FI_CQ_FORMAT_DATA,
        FI_CQ_FORMAT_TAGGED,
        FI_WAIT_NONE,
        FI_WAIT_UNSPEC,
        FI_WAIT_FD,
        FI_WAIT_YIELD,
        FI_CNTR_EVENTS_COMP,
        FI_CQ_COND_NONE,
        FI_CQ_COND_THRESHOLD,
        FI_OPT_ENDPOINT,
        FI_OPT_MIN_MULTI_RECV,
        FI_TC_UNSPEC,
        FI_ADDR_UNSPEC,
        FI_ADDR_NOTAVAIL,
        FI_KEY_NOTAVAIL,
        FI_EOTHER,
        FI_ETOOSMALL,
        FI_EOPBADSTATE,
        FI_EAVAIL,
        FI_EBADFLAGS,
        FI_EDOMAIN,
        FI_ENOCQ,
        FI_ETRUNC,
        FI_ENOKEY,
        FI_ENOAV,
        FI_EAGAIN,
        FI_ENOMSG,
        FI_ECANCELED,
    ];
    let named = [
        ("FI_CLASS_FABRIC", class::FABRIC as u64),
        ("FI_CLASS_DOMAIN", class::DOMAIN as u64),
        ("FI_CLASS_EP", class::EP as u64),
        ("FI_CLASS_SRX_CTX", class::SRX_CTX as u64),
        ("FI_CLASS_AV", class::AV as u64),
        ("FI_CLASS_MR", class::MR as u64),
        ("FI_CLASS_EQ", class::EQ as u64),
        ("FI_CLASS_CQ", class::CQ as u64),
        ("FI_CLASS_CNTR", class::CNTR as u64),
        ("FI_CLASS_POLL", class::POLL as u64),
        ("FI_GETOPSFLAG", command::GETOPSFLAG as u64),
        ("FI_SETOPSFLAG", command::SETOPSFLAG as u64),
        ("FI_GETWAIT", command::GETWAIT as u64),
        ("FI_ENABLE", command::ENABLE as u64),
        ("FI_GETWAITOBJ", command::GETWAITOBJ as u64),
        ("FI_DOUBLE_COMPLEX", 11),
        ("FI_UINT128", 15),
        ("FI_MSWAP", op::MSWAP.into()),
        ("FI_CSWAP", op::CSWAP.into()),
        ("FI_ATOMIC_READ", op::READ.into()),
    ];
    all.extend(named.map(|(name, value)| Fact {
        expression: format!("(uint64_t) {name}"),
        value,
    }));
    all
}

/// The headers that every version has.
const HEADERS: &str = "fabric.h fi_atomic.h fi_cm.h fi_collective.h fi_domain.h fi_endpoint.h fi_eq.h \
                       fi_errno.h fi_rma.h fi_tagged.h providers/fi_prov.h";

/// Has a C program print the facts under these headers, and their version; nothing where the first
/// is not found.
fn values_of(facts: &[Fact], headers: &str, folder: Option<&OsStr>) -> Option<(u32, Vec<u64>)> {
    let here = tempfile::tempdir().expect("a folder");
    let (source, program) = (here.path().join("facts.c"), here.path().join("facts"));
    let mut text = String::from("#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n");
    for header in headers.split_whitespace() {
        writeln!(text, "#include <rdma/{header}>").expect("a string");
    }
    text.push_str(
        "int main(void) {\n\
         printf(\"%u\\n\", FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));\n",
    );
    for fact in facts {
        writeln!(
            text,
            "printf(\"%llu\\n\", (unsigned long long) ({}));",
            fact.expression
        )
        .expect("a string");
    }
    text.push_str("return 0; }\n");
    std::fs::write(&source, text).expect("written");
    let compiler = || {
        let mut command = Command::new("cc");
        if let Some(folder) = folder {
            command.arg("-I").arg(folder);
        }
        command
    };
    let found = compiler()
        .args([
            "-include",
            "rdma/fabric.h",
            "-fsyntax-only",
            "-xc",
            "/dev/null",
        ])
        .output()
        .is_ok_and(|output| output.status.success());
    if !found {
        return None;
    }
    let compiled = compiler()
        .arg("-o")
        .args([&program, &source])
        .status()
        .expect("a compiler");
    assert!(compiled.success(), "the C program does not compile");
    let output = Command::new(&program).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut numbers = text.lines().map(|line| line.parse().expect("a number"));
    let version: u64 = numbers.next().expect("a version");
    let values: Vec<u64> = numbers.collect();
    assert_eq!(values.len(), facts.len(), "{text}");
    Some((u32::try_from(version).expect("a version"), values))
}

#[test]
fn structures_and_numbers_are_those_of_the_headers() {
    let facts: Vec<Fact> = structures().into_iter().chain(numbers()).collect();
    let Some((version, values)) = values_of(&facts, HEADERS, None) else {
        println!("SKIPPED: no C compiler, or no libfabric headers (package libfabric-dev)");
        return;
    };
    for (fact, value) in facts.iter().zip(values) {
        let may_grow = version > fi_version(1, 17) && fact.expression.starts_with("sizeof");
        // Negative constants of C are wider here.
        assert!(
            fact.value == value || (may_grow && fact.value < value),
            "{}: {value}",
            fact.expression
        );
    }
}

/// Peer mode, of which the versions that have it have a header of their own.
#[test]
fn structures_of_peer_mode_are_those_of_the_headers() {
    const FOLDER: &str = "LIMIC_TEST_LIBFABRIC2_HEADERS";
    let mut facts = facts! {
        fi_ops_cq_owner { size, write, writeerr }
        fid_peer_cq { fid, owner_ops }
        fi_peer_cq_context { size, cq }
        fi_ops_cntr_owner { size, inc, incerr }
        fid_peer_cntr { fid, owner_ops }
        fi_peer_cntr_context { size, cntr }
        fi_peer_rx_entry {
            srx, addr, msg_size, tag, cq_data, flags, context, count, desc, peer_context, owner_context, iov,
        }
        fi_peer_match_attr { addr, msg_size, tag }
        fi_ops_srx_owner {
            size, get_msg, get_tag, queue_msg, queue_tag, foreach_unspec_addr, free_entry,
        }
        fi_ops_srx_peer { size, start_msg, start_tag, discard_msg, discard_tag }
        fid_peer_srx { ep_fid, owner_ops, peer_ops }
        fi_peer_srx_context { size, srx }
    };
    facts.push(Fact {
        expression: "sizeof(struct fi_cq_err_entry)".to_owned(),
        value: size_of::<fi_peer_cq_err_entry>() as u64,
    });
    facts.push(Fact {
        expression: "offsetof(struct fi_cq_err_entry, src_addr)".to_owned(),
        value: offset_of!(fi_peer_cq_err_entry, src_addr) as u64,
    });
    let Some(folder) = std::env::var_os(FOLDER) else {
        println!("SKIPPED: no headers of libfabric 2.3 to 2.6 ({FOLDER} names their folder)");
        return;
    };
    let headers = format!("{HEADERS} providers/fi_peer.h");
    let found = values_of(&facts, &headers, Some(&folder));
    let (_, values) = found.unwrap_or_else(|| panic!("no headers of libfabric in {FOLDER}"));
    for (fact, value) in facts.iter().zip(values) {
        assert_eq!(fact.value, value, "{}", fact.expression);
    }
}
